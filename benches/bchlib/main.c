/*
 * Runs bchlib's encoder and decoder on pages from a file and tells how long they took. Started by ../bch.rs.
 *
 * usage: main M T STEP_BYTES STEPS FILE
 *
 * FILE holds STEPS steps, each: data, ECC bytes, data with errors, ECC bytes with errors. Each line "encode N", "clean N" or
 * "errors N" on standard input runs over all steps N times; the answer is "<nanoseconds> <wrong results>".
 */
#define _POSIX_C_SOURCE 199309L
#include "bch.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_T = 128 };

struct job {
	struct bch_control *bch;
	unsigned int step_bytes, steps, stride;
	const uint8_t *input;
	uint8_t *work; /* one step and its ECC bytes */
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static unsigned int encode(struct job *job, const uint8_t *step)
{
	unsigned int ecc_bytes = job->bch->ecc_bytes;

	memset(job->work, 0, ecc_bytes);
	bch_encode(job->bch, step, job->step_bytes, job->work);
	return memcmp(job->work, step + job->step_bytes, ecc_bytes) != 0;
}

static unsigned int decode(struct job *job, const uint8_t *step, int errors)
{
	unsigned int at[MAX_T];
	int found;

	memcpy(job->work, step, job->stride / 2);
	found = bch_decode(job->bch, job->work, job->step_bytes, job->work + job->step_bytes, NULL, NULL, at);
	for (int i = 0; i < found; i++)
		if (at[i] < 8 * (job->step_bytes + job->bch->ecc_bytes))
			job->work[at[i] / 8] ^= 1u << (at[i] % 8);
	return found != errors;
}

static unsigned int run(struct job *job, const char *what)
{
	unsigned int wrong = 0;
	const uint8_t *step = job->input;

	for (unsigned int i = 0; i < job->steps; i++, step += job->stride) {
		if (what[0] == 'e' && what[1] == 'n')
			wrong += encode(job, step);
		else if (what[0] == 'c')
			wrong += decode(job, step, 0);
		else
			wrong += decode(job, step + job->stride / 2, (int)job->bch->t);
	}
	return wrong;
}

static const uint8_t *load(const char *path, size_t len)
{
	uint8_t *bytes = malloc(len);
	FILE *file = fopen(path, "rb");

	if (!bytes || !file || fread(bytes, 1, len, file) != len)
		exit(2);
	fclose(file);
	return bytes;
}

int main(int argc, char **argv)
{
	struct job job;
	char what[16];
	unsigned int rounds;

	if (argc != 6)
		return 2;
	job.bch = bch_init(atoi(argv[1]), atoi(argv[2]), 0, false);
	if (!job.bch)
		return 2;
	job.step_bytes = (unsigned int)atoi(argv[3]);
	job.steps = (unsigned int)atoi(argv[4]);
	job.stride = 2 * (job.step_bytes + job.bch->ecc_bytes);
	job.input = load(argv[5], (size_t)job.stride * job.steps);
	job.work = malloc(job.stride);
	if (!job.work)
		return 2;
	while (scanf("%15s %u", what, &rounds) == 2) {
		unsigned int wrong = 0;
		uint64_t start = now_ns();

		for (unsigned int i = 0; i < rounds; i++)
			wrong += run(&job, what);
		printf("%llu %u\n", (unsigned long long)(now_ns() - start), wrong);
		fflush(stdout);
	}
	return 0;
}
