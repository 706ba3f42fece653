/* Operations on what is known about an inode. */
#define _GNU_SOURCE
#include "operations.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* Only regular files and folders may have those of users. */
static void attribute_name(int entry, char name[256])
{
	static const char *const spaces[] = { "user", "trusted", "security" };
	bool plain = kind_of(entry) & (FILE_ENTRY | DIR_ENTRY);
	const char *space = spaces[plain ? below(&dice, 3) : 1 + below(&dice, 2)];
	int length = snprintf(name, 256, "%s.witness-%u", space, (unsigned int)below(&dice, 6));

	if (chance(&dice, 5)) {
		memset(name + length, 'x', 255 - length);
		name[255] = 0;
	}
}

static void set_one(int entry, const char *name, size_t length)
{
	unsigned char value[4096];
	char path[4096];

	if (!path_of(entry, path))
		return;
	fill(&dice, value, length);
	done("setxattr", path, lsetxattr(path, name, value, length, 0));
}

void set_attribute(void)
{
	char name[256];
	int entry = pick(&dice, ANY_ENTRY);

	if (entry < 0)
		return;
	attribute_name(entry, name);
	set_one(entry, name, chance(&dice, 15) ? 4096 - below(&dice, 100) : below(&dice, 200));
}

/*
 * Not those of symlinks and devices: Linux (6.1 to 6.12 at least) then files the inode under a place that is off by what
 * the length of its data lacks to a multiple of 8, and cannot read its index after the next commit.
 */
void remove_attribute(void)
{
	char list[8192], path[4096], *name = list;
	int entry = pick(&dice, FILE_ENTRY | DIR_ENTRY);
	ssize_t length;

	if (entry < 0 || !path_of(entry, path))
		return;
	length = llistxattr(path, list, sizeof(list));
	if (length <= 0)
		return;
	while (chance(&dice, 50) && name + strlen(name) + 1 < list + length)
		name += strlen(name) + 1;
	done("removexattr", path, lremovexattr(path, name));
}

void many_attributes(void)
{
	char name[256];
	int entry = pick(&dice, FILE_ENTRY | DIR_ENTRY);
	unsigned int count = 10 + below(&dice, 60);

	for (unsigned int index = 0; entry >= 0 && index < count; index++) {
		snprintf(name, sizeof(name), "user.number-%u", index);
		set_one(entry, name, below(&dice, 50));
	}
}

void change_mode(void)
{
	char path[4096];
	int entry = pick(&dice, FILE_ENTRY | DIR_ENTRY | OTHER_ENTRY);

	if (entry >= 0 && path_of(entry, path))
		done("chmod", path, chmod(path, below(&dice, 010000)));
}

void change_owner(void)
{
	char path[4096];
	int entry = pick(&dice, ANY_ENTRY);
	unsigned int end = chance(&dice, 50) ? 1 << 16 : 0xFFFFFFFF;

	if (entry >= 0 && path_of(entry, path))
		done("chown", path, lchown(path, below(&dice, end), below(&dice, end)));
}

/* From 1901 to 2242. */
static struct timespec some_time(void)
{
	struct timespec time = { .tv_nsec = below(&dice, 1000000000) };

	time.tv_sec = (long long)below(&dice, 5LL << 31) - (1LL << 31);
	return time;
}

void change_times(void)
{
	struct timespec times[2] = { some_time(), some_time() };
	char path[4096];
	int entry = pick(&dice, ANY_ENTRY);

	if (entry >= 0 && path_of(entry, path))
		done("utimens", path, utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW));
}

void change_flags(void)
{
	static const unsigned int choice[] = { FS_COMPR_FL, FS_COMPR_FL, FS_COMPR_FL, FS_SYNC_FL, FS_APPEND_FL, FS_IMMUTABLE_FL };
	unsigned int flags, flag = choice[below(&dice, 6)];
	char path[4096];
	int entry = pick(&dice, FILE_ENTRY | DIR_ENTRY), fd;

	if (!on_ubifs || entry <= 0 || !path_of(entry, path))
		return;
	if (kind_of(entry) == DIR_ENTRY && chance(&dice, 30))
		flag = FS_DIRSYNC_FL;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return;
	if (!ioctl(fd, FS_IOC_GETFLAGS, &flags)) {
		flags ^= flag;
		done("setflags", path, ioctl(fd, FS_IOC_SETFLAGS, &flags));
	}
	close(fd);
}
