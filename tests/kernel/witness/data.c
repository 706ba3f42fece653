/* Operations on what is in a file. */
#define _GNU_SOURCE
#include "operations.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool write_bytes(int fd, const char *path, long long offset, size_t length)
{
	static unsigned char bytes[1 << 17];

	fill(&dice, bytes, length);
	return done("write", path, pwrite(fd, bytes, length, offset) < 0 ? -1 : 0);
}

static int open_some_file(char path[4096], int flags)
{
	int entry = pick(&dice, FILE_ENTRY), fd;

	if (entry < 0 || !path_of(entry, path))
		return -1;
	fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK);
	return done("open", path, fd) ? fd : -1;
}

/* Sometimes far behind the end, which leaves a hole. */
static long long some_offset(int fd)
{
	struct stat stat;

	if (fstat(fd, &stat) || chance(&dice, 4))
		return below(&dice, 1 << 21);
	return below(&dice, stat.st_size + 8192);
}

void write_somewhere(void)
{
	char path[4096];
	int fd = open_some_file(path, O_RDWR | (chance(&dice, 10) ? O_SYNC : chance(&dice, 10) ? O_DSYNC : 0));

	if (fd < 0)
		return;
	write_bytes(fd, path, some_offset(fd), 1 + below(&dice, chance(&dice, 80) ? 5000 : 40000));
	close(fd);
}

void append(void)
{
	char path[4096];
	int fd = open_some_file(path, O_WRONLY | O_APPEND);

	if (fd < 0)
		return;
	write_bytes(fd, path, 0, 1 + below(&dice, 6000));
	if (chance(&dice, 30))
		done("fdatasync", path, fdatasync(fd));
	close(fd);
}

void truncate_file(void)
{
	char path[4096];
	int fd = open_some_file(path, O_RDWR);

	if (fd < 0)
		return;
	done("truncate", path, ftruncate(fd, chance(&dice, 15) ? 0 : some_offset(fd)));
	if (chance(&dice, 50))
		write_bytes(fd, path, some_offset(fd), 1 + below(&dice, 3000));
	close(fd);
}

/* One in three gets a name after all. */
void temporary_file(void)
{
	char folder[4096], name[256], path[4096], itself[64];
	int parent = pick(&dice, DIR_ENTRY), fd;

	make_name(&dice, name);
	if (!path_of(parent, folder) || !path_in(parent, name, path))
		return;
	fd = open(folder, O_TMPFILE | O_RDWR, 0640);
	if (!done("tmpfile", folder, fd))
		return;
	write_bytes(fd, folder, 0, 1 + below(&dice, 9000));
	if (!chance(&dice, 33)) {
		hold_open(fd);
		return;
	}
	snprintf(itself, sizeof(itself), "/proc/self/fd/%d", fd);
	if (done("name", path, linkat(AT_FDCWD, itself, AT_FDCWD, path, AT_SYMLINK_FOLLOW)))
		add_entry(parent, name, FILE_ENTRY);
	close(fd);
}

void remove_while_open(void)
{
	char folder[4096], name[256], path[4096];
	int parent = pick(&dice, DIR_ENTRY), fd;

	make_name(&dice, name);
	if (!path_of(parent, folder) || !path_in(parent, name, path))
		return;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (!done("create", path, fd))
		return;
	write_bytes(fd, path, 0, 1 + below(&dice, 9000));
	if (chance(&dice, 50))
		done("fsync", path, fsync(fd));
	done("remove", path, unlink(path));
	hold_open(fd);
}

void synchronise_file(void)
{
	char path[4096];
	int entry = pick(&dice, FILE_ENTRY | DIR_ENTRY), fd;

	if (entry < 0 || !path_of(entry, path))
		return;
	fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return;
	if (chance(&dice, 25))
		done("fdatasync", path, fdatasync(fd));
	else
		done("fsync", path, fsync(fd));
	close(fd);
}
