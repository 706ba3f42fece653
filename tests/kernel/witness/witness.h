/*
 * The witness: what a filesystem shows through system calls, and how it is put to work. Runs in the judge's guest and on
 * the host. `main.c` has its commands.
 */
#ifndef WITNESS_H
#define WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Ends the program when something fails that must not. */
void fail(const char *what) __attribute__((noreturn));

/* manifest.c: one line for each entry below `folder`, on standard output. */
void print_manifest(const char *folder);

/* Prints bytes that are no plain ASCII, and `\`, as \xHH. */
void print_escaped(FILE *out, const char *bytes, size_t length);

/* random.c: splitmix64 (Steele, Lea, Flood 2014). */
struct random {
	uint64_t state;
};

uint64_t draw(struct random *random);
/* Below `end`, which is not 0. */
uint64_t below(struct random *random, uint64_t end);
/* True `percent` times in a hundred. */
bool chance(struct random *random, unsigned int percent);
/* Bytes of one of several kinds: zeros, noise, text, runs. */
void fill(struct random *random, unsigned char *bytes, size_t length);
/* A name for a directory entry, at most 255 bytes and a NUL. */
void make_name(struct random *random, char name[256]);
/* The `index`-th of 2^16 names that share one R5 hash. `index` has 16 bits. */
void make_colliding_name(unsigned int index, char name[256]);

/* tree.c: the names that exist, as the workload believes. Entry 0 is the root. */
enum kind { FILE_ENTRY = 1, DIR_ENTRY = 2, LINK_ENTRY = 4, OTHER_ENTRY = 8, ANY_ENTRY = 15 };

/* Reads the names below the current folder. */
void read_tree(void);
/* An entry of one of `kinds`, or -1. The root is a directory. */
int pick(struct random *random, unsigned int kinds);
enum kind kind_of(int entry);
/* Writes the path of `entry`; false when it is too long for a system call. */
bool path_of(int entry, char path[4096]);
bool path_in(int parent, const char *name, char path[4096]);
int add_entry(int parent, const char *name, enum kind kind);
/* Also what is below. */
void remove_entry(int entry);
void move_entry(int entry, int parent, const char *name);
void exchange_entries(int one, int other);

/* work.c: `count` operations below `folder`; what was done and what was synced goes to `log`. */
struct work {
	uint64_t seed;
	uint64_t count;
	const char *folder;
	FILE *log;
	/* Files that have no name are held open. */
	bool hold;
};

void work(const struct work *work);

/* settle.c: all that was done below `folder` reaches the flash without a commit. */
void settle(const char *folder);

/* dump.c: copies a device to a file; what was copied was there at one moment. */
void dump(const char *device, const char *file);

/* tear.c */
void tear(uint64_t seed, const char *file, size_t block_bytes, size_t page_bytes);

#endif
