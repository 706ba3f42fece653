/*
 * Everything reaches the flash as a journal does it: no sync(2), which UBIFS answers with a commit. What cannot be opened
 * (symlinks, devices) is written back by the kernel's flusher, which a change of its period wakes.
 */
#define _GNU_SOURCE
#include "witness.h"

#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void set_flusher(const char *centiseconds)
{
	int fd = open("/proc/sys/vm/dirty_writeback_centisecs", O_WRONLY);

	if (fd < 0 || write(fd, centiseconds, strlen(centiseconds)) < 0)
		fail("dirty_writeback_centisecs");
	close(fd);
}

static int synchronise(const char *path, const struct stat *stat, int type, struct FTW *place)
{
	int fd;

	(void)type;
	(void)place;
	if (!S_ISREG(stat->st_mode) && !S_ISDIR(stat->st_mode))
		return 0;
	fd = open(path, O_RDONLY | O_NOFOLLOW);
	if (fd < 0 || fsync(fd))
		fail(path);
	close(fd);
	return 0;
}

/* The write buffer that holds the root's inode also holds the inodes that the flusher wrote. */
static void push_out(const char *folder)
{
	int fd = open(folder, O_RDONLY | O_DIRECTORY);

	if (fd < 0 || futimens(fd, NULL) || fsync(fd))
		fail(folder);
	close(fd);
}

void settle(const char *folder)
{
	set_flusher("400");
	set_flusher("0");
	set_flusher("400");
	usleep(100000);
	if (nftw(folder, synchronise, 64, FTW_PHYS | FTW_MOUNT))
		fail(folder);
	set_flusher("0");
	set_flusher("300");
	usleep(100000);
	push_out(folder);
}
