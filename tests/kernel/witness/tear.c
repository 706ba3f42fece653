/*
 * What a power cut leaves of the page that was being written: in a dump, the last page of the block that was written to
 * last loses its second half, or has noise there.
 */
#include "witness.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static bool is_erased(const unsigned char *bytes, size_t length)
{
	for (size_t at = 0; at < length; at++)
		if (bytes[at] != 0xFF)
			return false;
	return true;
}

/* Pages of a block up to the last one that is written; 0 when all of them or none are. */
static size_t written_pages(const unsigned char *block, size_t block_bytes, size_t page_bytes)
{
	size_t pages = block_bytes / page_bytes, written = pages;

	while (written && is_erased(block + (written - 1) * page_bytes, page_bytes))
		written--;
	return written == pages ? 0 : written;
}

/* The youngest of UBIFS's nodes: each has a magic number, a CRC and a sequence number, at multiples of 8 bytes. */
static uint64_t youngest_node(const unsigned char *block, size_t block_bytes)
{
	uint64_t youngest = 0, sequence;

	for (size_t at = 0; at + 24 <= block_bytes; at += 8) {
		if (memcmp(block + at, "\x31\x18\x10\x06", 4))
			continue;
		memcpy(&sequence, block + at + 8, 8);
		if (sequence > youngest)
			youngest = sequence;
	}
	return youngest;
}

static void tear_page(struct random *random, int fd, off_t at, size_t page_bytes)
{
	unsigned char half[4096];
	size_t length = page_bytes / 2;

	memset(half, 0xFF, length);
	if (chance(random, 50))
		for (size_t index = 0; index < length; index++)
			half[index] = draw(random);
	if (pwrite(fd, half, length, at + page_bytes - length) != (ssize_t)length)
		fail("a page");
}

void tear(uint64_t seed, const char *file, size_t block_bytes, size_t page_bytes)
{
	static unsigned char block[1 << 20];
	struct random random = { seed };
	int fd = open(file, O_RDWR);
	uint64_t youngest = 0;
	off_t chosen = -1;

	if (fd < 0 || block_bytes > sizeof(block) || page_bytes > 4096)
		fail(file);
	for (off_t at = 0; pread(fd, block, block_bytes, at) == (ssize_t)block_bytes; at += block_bytes) {
		size_t written = written_pages(block, block_bytes, page_bytes);
		uint64_t sequence = written ? youngest_node(block, block_bytes) : 0;
		if (sequence > youngest) {
			youngest = sequence;
			chosen = at + (written - 1) * page_bytes;
		}
	}
	if (chosen >= 0)
		tear_page(&random, fd, chosen, page_bytes);
	close(fd);
}
