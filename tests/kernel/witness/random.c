/* Numbers, bytes and names from a seed. */
#include "witness.h"

#include <string.h>

uint64_t draw(struct random *random)
{
	uint64_t mixed = random->state += 0x9E3779B97F4A7C15;

	mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9;
	mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EB;
	return mixed ^ (mixed >> 31);
}

uint64_t below(struct random *random, uint64_t end)
{
	return draw(random) % end;
}

bool chance(struct random *random, unsigned int percent)
{
	return below(random, 100) < percent;
}

static const char *const words[] = { "flash ", "erase ", "leb=", "0x5a5a, ", "the quick ", "node\n", "journal\t", "commit " };

static void fill_with_words(struct random *random, unsigned char *bytes, size_t length)
{
	size_t at = 0;

	while (at < length) {
		const char *word = words[below(random, 8)];
		for (; *word && at < length; word++)
			bytes[at++] = *word;
	}
}

static void fill_with_runs(struct random *random, unsigned char *bytes, size_t length)
{
	size_t at = 0;

	while (at < length) {
		size_t run = 1 + below(random, 700);
		if (run > length - at)
			run = length - at;
		memset(bytes + at, draw(random), run);
		at += run;
	}
}

void fill(struct random *random, unsigned char *bytes, size_t length)
{
	switch (below(random, 5)) {
	case 0:
		memset(bytes, 0, length);
		break;
	case 1:
		for (size_t at = 0; at < length; at++)
			bytes[at] = draw(random);
		break;
	case 2:
		fill_with_runs(random, bytes, length);
		break;
	default:
		fill_with_words(random, bytes, length);
	}
}

/* Any byte but NUL and `/`. */
static char name_byte(struct random *random, unsigned int kind)
{
	static const char ascii[] = "abcdefghijklmnopqrstuvwxyz0123456789._- ";
	char byte;

	if (kind == 0)
		return ascii[below(random, sizeof(ascii) - 1)];
	do
		byte = kind == 1 ? 0xA0 + below(random, 0x60) : 1 + below(random, 255);
	while (byte == '/');
	return byte;
}

void make_name(struct random *random, char name[256])
{
	unsigned int kind = chance(random, 70) ? 0 : 1 + below(random, 2);
	size_t length = chance(random, 8) ? 255 : chance(random, 15) ? 1 + below(random, 255) : 1 + below(random, 12);

	if (chance(random, 5)) {
		make_colliding_name(below(random, 0x10000), name);
		return;
	}
	do {
		for (size_t at = 0; at < length; at++)
			name[at] = name_byte(random, kind);
		name[length] = 0;
	} while (!strcmp(name, ".") || !strcmp(name, ".."));
}

/*
 * R5 adds 16 for a byte that is one higher and keeps its upper half, and multiplies by 11 for each byte that follows: one
 * more in one byte is eleven less in the next.
 */
void make_colliding_name(unsigned int index, char name[256])
{
	for (unsigned int bit = 0; bit < 16; bit++, index >>= 1)
		memcpy(name + 2 * bit, index & 1 ? "bd" : "ao", 2);
	name[32] = 0;
}
