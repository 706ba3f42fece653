/*
 * witness manifest DIR                   what is below DIR, a line for each entry, by bytes of the path
 * witness work SEED COUNT DIR [LOG]      random operations of every kind
 * witness hold SEED COUNT DIR READY      the same; then makes the file READY and keeps files open that have no name
 * witness settle DIR                     brings all of it to the flash, file by file
 * witness dump DEVICE FILE               a device while it is in use: until two readings are the same
 * witness tear SEED FILE BLOCK PAGE      damages a dump as a power cut does; sizes in bytes
 * witness collide FIRST COUNT DIR        files whose names share one R5 hash
 */
#include "witness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void fail(const char *what)
{
	fprintf(stderr, "witness: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void usage(void)
{
	fprintf(stderr, "usage: witness manifest DIR | work SEED COUNT DIR [LOG] | hold SEED COUNT DIR READY |\n"
			"       settle DIR | dump DEVICE FILE |\n"
			"       tear SEED FILE BLOCK PAGE | collide FIRST COUNT DIR\n");
	exit(2);
}

static void run_work(char **arguments, const char *log, bool hold)
{
	struct work job = { .hold = hold, .folder = arguments[2] };

	job.seed = strtoull(arguments[0], NULL, 0);
	job.count = strtoull(arguments[1], NULL, 0);
	job.log = fopen(log ? log : "/dev/null", "w");
	if (!job.log)
		fail(log);
	work(&job);
	fclose(job.log);
}

/* Until it is killed. */
static void hold(char **arguments)
{
	char ready[4096];
	int fd;

	if (!realpath(".", ready) || arguments[3][0] != '/')
		usage();
	run_work(arguments, NULL, true);
	fd = open(arguments[3], O_WRONLY | O_CREAT, 0644);
	if (fd < 0)
		fail(arguments[3]);
	close(fd);
	for (;;)
		pause();
}

static void collide(char **arguments)
{
	unsigned long first = strtoul(arguments[0], NULL, 0), count = strtoul(arguments[1], NULL, 0);
	char name[256];

	if (chdir(arguments[2]))
		fail(arguments[2]);
	for (unsigned long index = first; index < first + count; index++) {
		make_colliding_name(index, name);
		int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0644);
		if (fd < 0 || write(fd, &index, sizeof(index)) != sizeof(index))
			fail(name);
		close(fd);
	}
}

int main(int count, char **arguments)
{
	const char *command = count > 1 ? arguments[1] : "";

	umask(0);
	if (!strcmp(command, "manifest") && count == 3)
		print_manifest(arguments[2]);
	else if (!strcmp(command, "work") && (count == 5 || count == 6))
		run_work(arguments + 2, arguments[5], false);
	else if (!strcmp(command, "hold") && count == 6)
		hold(arguments + 2);
	else if (!strcmp(command, "settle") && count == 3)
		settle(arguments[2]);
	else if (!strcmp(command, "dump") && count == 4)
		dump(arguments[2], arguments[3]);
	else if (!strcmp(command, "tear") && count == 6)
		tear(strtoull(arguments[2], NULL, 0), arguments[3], strtoul(arguments[4], NULL, 0), strtoul(arguments[5], NULL, 0));
	else if (!strcmp(command, "collide") && count == 5)
		collide(arguments + 2);
	else
		usage();
	if (fclose(stdout))
		fail("standard output");
	return 0;
}
