/* The names that exist. The workload changes them only after the kernel did. */
#include "witness.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct entry {
	/* Index of its folder; -1 when it is gone. The root is its own. */
	int parent;
	enum kind kind;
	char *name;
};

static struct entry *entries;
static int entry_count;

enum kind kind_of(int entry)
{
	return entries[entry].kind;
}

static bool has_gone(int entry)
{
	for (; entry > 0; entry = entries[entry].parent)
		if (entries[entry].parent < 0)
			return true;
	return false;
}

int pick(struct random *random, unsigned int kinds)
{
	for (int attempt = 0; attempt < 64; attempt++) {
		int entry = below(random, entry_count);
		if ((entries[entry].kind & kinds) && !has_gone(entry))
			return entry;
	}
	return kinds & DIR_ENTRY ? 0 : -1;
}

int add_entry(int parent, const char *name, enum kind kind)
{
	if (entry_count % 1024 == 0)
		entries = realloc(entries, (entry_count + 1024) * sizeof(*entries));
	entries[entry_count] = (struct entry){ .parent = parent, .kind = kind, .name = strdup(name) };
	return entry_count++;
}

void remove_entry(int entry)
{
	entries[entry].parent = -1;
}

void move_entry(int entry, int parent, const char *name)
{
	free(entries[entry].name);
	entries[entry].name = strdup(name);
	entries[entry].parent = parent;
}

void exchange_entries(int one, int other)
{
	struct entry kept = entries[one];

	entries[one].parent = entries[other].parent;
	entries[one].name = entries[other].name;
	entries[other].parent = kept.parent;
	entries[other].name = kept.name;
}

bool path_of(int entry, char path[4096])
{
	if (entry == 0) {
		strcpy(path, ".");
		return true;
	}
	return path_in(entries[entry].parent, entries[entry].name, path);
}

bool path_in(int parent, const char *name, char path[4096])
{
	size_t length;

	if (!path_of(parent, path))
		return false;
	length = strlen(path);
	if (length + strlen(name) + 2 > 4096)
		return false;
	path[length] = '/';
	strcpy(path + length + 1, name);
	return true;
}

static enum kind kind_of_mode(mode_t mode)
{
	return S_ISREG(mode) ? FILE_ENTRY : S_ISDIR(mode) ? DIR_ENTRY : S_ISLNK(mode) ? LINK_ENTRY : OTHER_ENTRY;
}

static int by_name(const struct dirent **one, const struct dirent **other)
{
	return strcmp((*one)->d_name, (*other)->d_name);
}

/* By name, so that every filesystem gives the same order. */
static void read_folder(int folder)
{
	char path[4096];
	struct dirent **items;
	struct stat stat;
	int count;

	if (!path_of(folder, path))
		return;
	count = scandir(path, &items, NULL, by_name);
	for (int index = 0; index < count; index++) {
		const char *name = items[index]->d_name;
		if (strcmp(name, ".") && strcmp(name, "..") && path_in(folder, name, path) && !lstat(path, &stat)) {
			int entry = add_entry(folder, name, kind_of_mode(stat.st_mode));
			if (S_ISDIR(stat.st_mode))
				read_folder(entry);
		}
		free(items[index]);
	}
	if (count >= 0)
		free(items);
}

void read_tree(void)
{
	entry_count = 0;
	add_entry(0, "", DIR_ENTRY);
	read_folder(0);
}
