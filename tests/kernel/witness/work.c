/* Random operations. One that the filesystem refuses (no space, name taken, immutable) is logged and forgotten. */
#define _GNU_SOURCE
#include "operations.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#define UBIFS_MAGIC 0x24051905

struct random dice;
bool on_ubifs;

static FILE *journal;
static uint64_t operation;
static int held[16];
static unsigned int held_count;

bool done(const char *what, const char *path, int result)
{
	fprintf(journal, "%llu %s ", (unsigned long long)operation, what);
	print_escaped(journal, path, strlen(path));
	fprintf(journal, " %s\n", result < 0 ? strerrorname_np(errno) : "ok");
	return result >= 0;
}

void hold_open(int fd)
{
	if (held_count < 16) {
		held[held_count++] = fd;
		return;
	}
	unsigned int at = below(&dice, 16);
	close(held[at]);
	held[at] = fd;
}

struct weighted {
	unsigned int weight;
	void (*run)(void);
};

static const struct weighted operations[] = {
	{ 14, make_file },     { 6, make_folder },      { 6, make_node },     { 6, make_symlink },   { 5, make_link },
	{ 10, rename_entry },  { 3, exchange },         { 2, whiteout },      { 8, remove_something }, { 12, write_somewhere },
	{ 8, append },         { 8, truncate_file },    { 3, temporary_file }, { 3, remove_while_open }, { 10, set_attribute },
	{ 4, remove_attribute }, { 1, many_attributes }, { 5, change_mode },   { 5, change_owner },   { 5, change_times },
	{ 4, change_flags },   { 8, synchronise_file }, { 1, many_files },    { 1, colliding_files },
};

static void one_operation(void)
{
	unsigned int total = 0, count = sizeof(operations) / sizeof(*operations);

	for (unsigned int index = 0; index < count; index++)
		total += operations[index].weight;
	uint64_t drawn = below(&dice, total);
	for (unsigned int index = 0; index < count; index++) {
		if (drawn < operations[index].weight) {
			operations[index].run();
			return;
		}
		drawn -= operations[index].weight;
	}
}

void work(const struct work *job)
{
	struct statfs filesystem;

	dice.state = job->seed;
	journal = job->log;
	if (chdir(job->folder) || statfs(".", &filesystem))
		fail(job->folder);
	on_ubifs = filesystem.f_type == UBIFS_MAGIC;
	read_tree();
	for (operation = 0; operation < job->count; operation++)
		one_operation();
	while (job->hold && held_count < 8)
		remove_while_open();
	while (!job->hold && held_count)
		close(held[--held_count]);
}
