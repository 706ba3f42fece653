/* Operations on names. */
#define _GNU_SOURCE
#include "operations.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* A new name in some folder, not too deep to be named. */
static bool new_path(int *parent, char name[256], char path[4096])
{
	*parent = pick(&dice, DIR_ENTRY);
	make_name(&dice, name);
	return path_in(*parent, name, path);
}

void make_file(void)
{
	char name[256], path[4096];
	int parent, fd;

	if (!new_path(&parent, name, path))
		return;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | (chance(&dice, 10) ? O_SYNC : 0), below(&dice, 010000));
	if (!done("create", path, fd))
		return;
	add_entry(parent, name, FILE_ENTRY);
	if (chance(&dice, 80))
		write_bytes(fd, path, 0, chance(&dice, 10) ? below(&dice, 60000) : below(&dice, 9000));
	close(fd);
}

void make_folder(void)
{
	char name[256], path[4096];
	int parent;

	if (new_path(&parent, name, path) && done("mkdir", path, mkdir(path, 0700 | below(&dice, 02000))))
		add_entry(parent, name, DIR_ENTRY);
}

/* Linux's 32-bit device numbers; UBIFS stores those below 2^16 in the old form. */
static dev_t device_number(void)
{
	if (chance(&dice, 40))
		return makedev(below(&dice, 256), below(&dice, 256));
	return makedev(below(&dice, 1 << 12), below(&dice, 1 << 20));
}

void make_node(void)
{
	static const mode_t types[] = { S_IFCHR, S_IFBLK, S_IFIFO, S_IFSOCK };
	char name[256], path[4096];
	int parent;
	mode_t mode = types[below(&dice, 4)] | below(&dice, 01000);

	if (new_path(&parent, name, path) && done("mknod", path, mknod(path, mode, device_number())))
		add_entry(parent, name, OTHER_ENTRY);
}

void make_symlink(void)
{
	char name[256], path[4096], target[4096] = "";
	size_t length = chance(&dice, 20) ? 4095 - below(&dice, 100) : 1 + below(&dice, 100);
	int parent;

	for (size_t at = 0; at < length; at++)
		target[at] = at % 9 == 8 ? '/' : 1 + below(&dice, 255);
	if (new_path(&parent, name, path) && done("symlink", path, symlink(target, path)))
		add_entry(parent, name, LINK_ENTRY);
}

void make_link(void)
{
	char name[256], path[4096], old[4096];
	int parent, entry = pick(&dice, FILE_ENTRY | LINK_ENTRY | OTHER_ENTRY);

	if (entry < 0 || !path_of(entry, old) || !new_path(&parent, name, path))
		return;
	if (done("link", path, link(old, path)))
		add_entry(parent, name, kind_of(entry));
}

/* To a new name or over one that exists. */
static bool target_of_rename(int *over, int *parent, char name[256], char path[4096])
{
	*over = chance(&dice, 40) ? pick(&dice, ANY_ENTRY) : -1;
	if (*over < 0)
		return new_path(parent, name, path);
	return path_of(*over, path);
}

static void rename_with(unsigned int flags, const char *what)
{
	char name[256], path[4096], old[4096];
	int parent = 0, over, entry = pick(&dice, ANY_ENTRY);

	if (entry <= 0 || !path_of(entry, old) || !target_of_rename(&over, &parent, name, path) || over == 0)
		return;
	if (!done(what, old, renameat2(AT_FDCWD, old, AT_FDCWD, path, flags)))
		return;
	done("to", path, 0);
	/* Two names of one inode: rename leaves both. What is over is read again with the tree. */
	if (!faccessat(AT_FDCWD, old, F_OK, AT_SYMLINK_NOFOLLOW) && !(flags & RENAME_WHITEOUT))
		return;
	if (over > 0) {
		exchange_entries(entry, over);
		remove_entry(over);
	} else {
		move_entry(entry, parent, name);
	}
}

void rename_entry(void)
{
	rename_with(chance(&dice, 20) ? RENAME_NOREPLACE : 0, "rename");
}

void whiteout(void)
{
	rename_with(RENAME_WHITEOUT, "whiteout");
}

void exchange(void)
{
	char one_path[4096], other_path[4096];
	int one = pick(&dice, ANY_ENTRY), other = pick(&dice, ANY_ENTRY);

	if (one <= 0 || other <= 0 || one == other || !path_of(one, one_path) || !path_of(other, other_path))
		return;
	if (done("exchange", one_path, renameat2(AT_FDCWD, one_path, AT_FDCWD, other_path, RENAME_EXCHANGE))) {
		done("and", other_path, 0);
		exchange_entries(one, other);
	}
}

void remove_something(void)
{
	char path[4096];
	int entry = pick(&dice, ANY_ENTRY);

	if (entry <= 0 || !path_of(entry, path))
		return;
	if (done("remove", path, remove(path)))
		remove_entry(entry);
}

void many_files(void)
{
	char name[256], path[4096];
	int parent = pick(&dice, DIR_ENTRY), fd;
	unsigned int count = 20 + below(&dice, chance(&dice, 10) ? 1000 : 80), first = below(&dice, 100000);

	for (unsigned int index = first; index < first + count; index++) {
		snprintf(name, sizeof(name), "entry-%u", index);
		if (!path_in(parent, name, path))
			return;
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (!done("create", path, fd))
			continue;
		close(fd);
		add_entry(parent, name, FILE_ENTRY);
	}
}

void colliding_files(void)
{
	char name[256], path[4096];
	int parent = pick(&dice, DIR_ENTRY), fd;
	unsigned int count = 4 + below(&dice, 40), first = below(&dice, 0x8000);

	for (unsigned int index = first; index < first + count; index++) {
		make_colliding_name(index, name);
		if (!path_in(parent, name, path))
			return;
		fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
		if (!done("create", path, fd))
			continue;
		add_entry(parent, name, FILE_ENTRY);
		write_bytes(fd, path, 0, 4);
		close(fd);
	}
}
