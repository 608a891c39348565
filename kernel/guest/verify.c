// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * verify DEVICE MIB PROCESSES ROUNDS: every process writes and reads blocks of its own part of the device, half of them past
 * the page cache, and compares each block with what it wrote last. Exit status 0: everything was right.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK 4096
#define BLOCKS_MAX 16 /* of one call */
#define WORDS (BLOCK / sizeof(uint64_t))

struct part {
	int fd;
	uint64_t first; /* block */
	uint64_t blocks;
	uint32_t *generation; /* 0: never written */
	uint64_t *buffer;
};

static uint64_t word(uint64_t block, uint32_t generation, unsigned int i)
{
	return (block << 32 | generation) * 0x9e3779b97f4a7c15u + i;
}

static void check_block(const struct part *part, uint64_t at, const uint64_t *data)
{
	if (!part->generation[at])
		return;
	for (unsigned int i = 0; i < WORDS; i++)
		if (data[i] != word(part->first + at, part->generation[at], i)) {
			printf("block %llu has other data than generation %u\n",
			       (unsigned long long)(part->first + at), part->generation[at]);
			_exit(1);
		}
}

static void transfer(struct part *part, uint64_t at, unsigned int count, uint32_t generation)
{
	off_t offset = (off_t)(part->first + at) * BLOCK;
	ssize_t done;

	for (unsigned int k = 0; generation && k < count; k++) {
		part->generation[at + k] = generation;
		for (unsigned int i = 0; i < WORDS; i++)
			part->buffer[k * WORDS + i] = word(part->first + at + k, generation, i);
	}
	done = generation ? pwrite(part->fd, part->buffer, (size_t)count * BLOCK, offset) :
			    pread(part->fd, part->buffer, (size_t)count * BLOCK, offset);
	if (done != (ssize_t)count * BLOCK) {
		printf("%s of %u blocks at %llu: %s\n", generation ? "write" : "read", count,
		       (unsigned long long)(part->first + at), done < 0 ? strerror(errno) : "short");
		_exit(1);
	}
	for (unsigned int k = 0; !generation && k < count; k++)
		check_block(part, at + k, part->buffer + k * WORDS);
}

static void work(struct part *part, uint32_t rounds, uint32_t seed)
{
	for (uint32_t round = 1; round <= rounds; round++) {
		unsigned int count;

		seed = seed * 1664525 + 1013904223;
		count = 1 + (seed >> 8) % BLOCKS_MAX;
		transfer(part, (seed >> 12) % (part->blocks - count), count, seed >> 31 ? round : 0);
	}
	if (fsync(part->fd)) {
		perror("fsync");
		_exit(1);
	}
	posix_fadvise(part->fd, 0, 0, POSIX_FADV_DONTNEED);
	for (uint64_t at = 0; at < part->blocks; at++)
		if (part->generation[at])
			transfer(part, at, 1, 0);
}

int main(int argc, char **argv)
{
	int processes, status, bad = 0;

	if (argc != 5)
		return 2;
	processes = atoi(argv[3]);
	for (int i = 0; i < processes; i++)
		if (!fork()) {
			struct part part = { .blocks = strtoull(argv[2], NULL, 0) * 256 / processes };

			part.first = part.blocks * i;
			part.fd = open(argv[1], O_RDWR | (i & 1 ? 0 : O_DIRECT));
			part.generation = calloc(part.blocks, sizeof(*part.generation));
			if (part.fd < 0 || !part.generation ||
			    posix_memalign((void **)&part.buffer, BLOCK, BLOCKS_MAX * BLOCK)) {
				perror(argv[1]);
				_exit(1);
			}
			work(&part, strtoul(argv[4], NULL, 0), i + 1);
			_exit(0);
		}
	while (wait(&status) > 0)
		bad |= status;
	return bad != 0;
}
