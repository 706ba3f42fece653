/* A copy of a flash that nobody keeps from changing. */
#include "witness.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The buffer grows with the device; it is never given back. */
static unsigned char *read_all(const char *device, size_t *length)
{
	size_t room = 1 << 20;
	unsigned char *bytes = malloc(room);
	int fd = open(device, O_RDONLY);
	ssize_t got;

	if (fd < 0)
		fail(device);
	*length = 0;
	while ((got = read(fd, bytes + *length, room - *length)) > 0) {
		*length += got;
		if (*length == room)
			bytes = realloc(bytes, room *= 2);
	}
	if (got < 0)
		fail(device);
	close(fd);
	return bytes;
}

void dump(const char *device, const char *file)
{
	size_t length, again_length;
	unsigned char *bytes = read_all(device, &length), *again;
	int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	while (again = read_all(device, &again_length), again_length != length || memcmp(bytes, again, length)) {
		free(bytes);
		bytes = again;
		length = again_length;
	}
	if (fd < 0 || write(fd, bytes, length) != (ssize_t)length || close(fd))
		fail(file);
}
