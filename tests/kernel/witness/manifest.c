/*
 * What is below a folder, a line for each entry:
 *
 *   PATH type=f ino=65 mode=0644 uid=0 gid=0 nlink=2 group=FIRST size=5 atime=S.N mtime=S.N ctime=S.N data=FNV flags=HEX ...
 *
 * with `group=` for what has several names (the first of them), `rdev=` for devices, `target=` for symlinks, `flags=` for
 * regular files and directories, `data=` (a hash) for regular files, and an `xattr:NAME=HEX` for each attribute.
 * Lines are ordered by the bytes of their paths; the folder itself is `.`.
 */
#include "witness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

struct entry {
	char *path;
	struct stat stat;
};

static struct entry *entries;
static size_t entry_count;

void print_escaped(FILE *out, const char *bytes, size_t length)
{
	for (size_t at = 0; at < length; at++) {
		unsigned char byte = bytes[at];
		if (byte > ' ' && byte < 0x7F && byte != '\\' && byte != '=')
			fputc(byte, out);
		else
			fprintf(out, "\\x%02x", byte);
	}
}

/* Paths are as deep as the tree, so each is reached through its folder. */
static int open_parent(const char *path, const char **name)
{
	const char *slash;
	int folder = open(".", O_RDONLY | O_DIRECTORY);

	while ((slash = strchr(path, '/'))) {
		char part[256] = "";
		int next;

		memcpy(part, path, slash - path);
		next = openat(folder, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
		if (next < 0)
			fail(path);
		close(folder);
		folder = next;
		path = slash + 1;
	}
	*name = path;
	return folder;
}

static void add(const char *folder, const char *name, const struct stat *stat)
{
	struct entry *entry;
	size_t length = strlen(folder) + strlen(name) + 2;

	if (entry_count % 1024 == 0)
		entries = realloc(entries, (entry_count + 1024) * sizeof(*entries));
	entry = &entries[entry_count++];
	entry->path = malloc(length);
	snprintf(entry->path, length, "%s%s%s", folder, *folder ? "/" : "", name);
	entry->stat = *stat;
}

static void walk(int fd, const char *path)
{
	DIR *directory = fdopendir(dup(fd));
	struct dirent *item;
	struct stat stat;

	if (!directory)
		fail(path);
	while (errno = 0, (item = readdir(directory))) {
		if (!strcmp(item->d_name, ".") || !strcmp(item->d_name, ".."))
			continue;
		if (fstatat(fd, item->d_name, &stat, AT_SYMLINK_NOFOLLOW))
			fail(item->d_name);
		add(path, item->d_name, &stat);
		if (S_ISDIR(stat.st_mode)) {
			char *below = entries[entry_count - 1].path;
			int child = openat(fd, item->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
			if (child < 0)
				fail(below);
			walk(child, below);
			close(child);
		}
	}
	if (errno)
		fail(path);
	closedir(directory);
}

static int by_path(const void *one, const void *other)
{
	return strcmp(((const struct entry *)one)->path, ((const struct entry *)other)->path);
}

static const struct entry *first_name(const struct entry *entry)
{
	const struct entry *first = entries;

	while (first->stat.st_ino != entry->stat.st_ino)
		first++;
	return first;
}

static char type_letter(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return 'f';
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFCHR:
		return 'c';
	case S_IFBLK:
		return 'b';
	case S_IFIFO:
		return 'p';
	default:
		return 's';
	}
}

static void print_stat(const struct entry *entry)
{
	const struct stat *stat = &entry->stat;

	printf(" type=%c ino=%llu mode=%04o uid=%u gid=%u nlink=%lu", type_letter(stat->st_mode),
	       (unsigned long long)stat->st_ino, stat->st_mode & 07777, stat->st_uid, stat->st_gid, (unsigned long)stat->st_nlink);
	if (!S_ISDIR(stat->st_mode) && stat->st_nlink > 1) {
		const char *first = first_name(entry)->path;
		printf(" group=");
		print_escaped(stdout, first, strlen(first));
	}
	printf(" size=%lld atime=%lld.%09ld mtime=%lld.%09ld ctime=%lld.%09ld", (long long)stat->st_size,
	       (long long)stat->st_atim.tv_sec, stat->st_atim.tv_nsec, (long long)stat->st_mtim.tv_sec, stat->st_mtim.tv_nsec,
	       (long long)stat->st_ctim.tv_sec, stat->st_ctim.tv_nsec);
	if (S_ISCHR(stat->st_mode) || S_ISBLK(stat->st_mode))
		printf(" rdev=%u:%u", major(stat->st_rdev), minor(stat->st_rdev));
}

/* FNV-1a over words of eight bytes, little-endian, the last one filled up with zeros: the size is told elsewhere. */
static void print_data(int fd, const char *path)
{
	static unsigned char buffer[1 << 16];
	uint64_t hash = 0xCBF29CE484222325, word;
	ssize_t length;

	while (memset(buffer, 0, sizeof(buffer)), (length = read(fd, buffer, sizeof(buffer))) > 0)
		for (ssize_t at = 0; at < length; at += 8) {
			memcpy(&word, buffer + at, 8);
			hash = (hash ^ word) * 0x100000001B3;
			hash ^= hash >> 32;
		}
	if (length < 0)
		fail(path);
	printf(" data=%016llx", (unsigned long long)hash);
}

static void print_contents(int folder, const char *name, const struct entry *entry)
{
	char target[4096];
	unsigned int flags;
	int fd;

	if (S_ISLNK(entry->stat.st_mode)) {
		ssize_t length = readlinkat(folder, name, target, sizeof(target));
		if (length < 0)
			fail(entry->path);
		printf(" target=");
		print_escaped(stdout, target, length);
		return;
	}
	if (!S_ISREG(entry->stat.st_mode) && !S_ISDIR(entry->stat.st_mode))
		return;
	fd = openat(folder, name, O_RDONLY | O_NOFOLLOW);
	if (fd < 0)
		fail(entry->path);
	if (S_ISREG(entry->stat.st_mode))
		print_data(fd, entry->path);
	if (!ioctl(fd, FS_IOC_GETFLAGS, &flags))
		printf(" flags=%x", flags);
	close(fd);
}

static int by_name(const void *one, const void *other)
{
	return strcmp(*(char *const *)one, *(char *const *)other);
}

static void print_attribute(const char *path, const char *name)
{
	static unsigned char value[1 << 16];
	ssize_t length = lgetxattr(path, name, value, sizeof(value));

	/*
	 * A JFFS2 that dropped attributes from memory lists some that are gone; where it finds that amid a list, it begins anew without
	 * going back in the buffer, and the last names are cut off: of a prefix that nobody has.
	 */
	if (length < 0 && (errno == ENODATA || errno == EOPNOTSUPP))
		return;
	if (length < 0)
		fail(name);
	printf(" xattr:");
	print_escaped(stdout, name, strlen(name));
	putchar('=');
	for (ssize_t at = 0; at < length; at++)
		printf("%02x", value[at]);
}

/* By way of /proc, for there is no lgetxattrat. */
static void print_attributes(int folder, const char *name, const char *whole)
{
	static char list[1 << 16];
	static char *names[1 << 15];
	char path[64 + 256];
	ssize_t length;
	size_t count = 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d/%s", folder, name);
	length = llistxattr(path, list, sizeof(list));
	if (length < 0)
		fail(whole);
	for (char *at = list; at < list + length; at += strlen(at) + 1)
		names[count++] = at;
	qsort(names, count, sizeof(*names), by_name);
	for (size_t index = 0; index < count; index++)
		print_attribute(path, names[index]);
}

static void print_entry(const struct entry *entry)
{
	const char *name;
	int folder = open_parent(entry->path, &name);

	print_escaped(stdout, entry->path, strlen(entry->path));
	print_stat(entry);
	print_contents(folder, name, entry);
	print_attributes(folder, name, entry->path);
	putchar('\n');
	close(folder);
}

void print_manifest(const char *folder)
{
	struct stat stat;
	int fd;

	if (chdir(folder) || lstat(".", &stat))
		fail(folder);
	add("", ".", &stat);
	fd = open(".", O_RDONLY | O_DIRECTORY);
	walk(fd, "");
	close(fd);
	qsort(entries, entry_count, sizeof(*entries), by_path);
	for (size_t index = 0; index < entry_count; index++)
		print_entry(&entries[index]);
}
