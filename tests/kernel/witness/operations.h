/* The operations of a workload: names.c, data.c, attributes.c. Each draws what it works on. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include "witness.h"

extern struct random dice;
/* Not every filesystem has inode flags that can be taken back. */
extern bool on_ubifs;

/* Logs what came of a system call; true when it did what it was asked to. */
bool done(const char *what, const char *path, int result);
/* Keeps a file open that has no name any more. */
void hold_open(int fd);
/* Writes `length` random bytes at `offset`. */
bool write_bytes(int fd, const char *path, long long offset, size_t length);

void make_file(void);
void make_folder(void);
void make_node(void);
void make_symlink(void);
void make_link(void);
void rename_entry(void);
void exchange(void);
void whiteout(void);
void remove_something(void);
void many_files(void);
void colliding_files(void);

void write_somewhere(void);
void append(void);
void truncate_file(void);
void temporary_file(void);
void remove_while_open(void);
void synchronise_file(void);

void set_attribute(void);
void remove_attribute(void);
void many_attributes(void);
void change_mode(void);
void change_owner(void);
void change_times(void);
void change_flags(void);

#endif
