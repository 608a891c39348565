// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * bench POLICY QUEUED [random]: what the object that goes into the module costs in user space. Prints nanoseconds per request
 * (insert, next, completed) with QUEUED requests queued, allocations after the first tenth, and the most bytes that blocks of powers
 * of two occupied, as arena.c counts them. Streams: 16 processes that read on; random: sectors at random.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

struct dwell_process {
	u32 task, group, context;
};
struct dwell_submission {
	void *rq;
	u64 sector;
	u32 sectors;
	u8 op, flags, class, level;
	struct dwell_process process;
};
struct dwell_next {
	void *rq;
	u64 until;
	const char *reason;
	u32 reason_length, id, what;
};
void *dwell_new(const char *, size_t, u32, u32, bool);
u32 dwell_insert(void *, u64, const struct dwell_submission *);
void dwell_next(void *, u64, struct dwell_next *);
void dwell_completed(void *, u64, u32, u32);

static u64 allocations, used, peak;

static size_t block(size_t size, size_t align)
{
	size_t bytes = 16;

	if (size < align)
		size = align;
	while (bytes < size)
		bytes *= 2;
	return bytes;
}

void *dwellc_alloc(size_t size, size_t align)
{
	allocations++;
	used += block(size, align);
	if (used > peak)
		peak = used;
	return aligned_alloc(align, (size + align - 1) / align * align);
}

void dwellc_free(void *at, size_t size, size_t align)
{
	used -= block(size, align);
	free(at);
}

void dwellc_panicked(const char *text, size_t length)
{
	fprintf(stderr, "panicked: %.*s\n", (int)length, text);
	exit(1);
}

void dwellc_fault(const char *text, size_t length)
{
	dwellc_panicked(text, length);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

enum { STREAMS = 16, DEPTH = 31, REQUESTS = 1000000, SERVICE_NS = 20000 };

int main(int argc, char **argv)
{
	u32 want = argc > 2 ? atoi(argv[2]) : 128, queued = 0, flying[DEPTH], in_flight = 0, done = 0;
	bool is_random = argc > 3;
	void *host = dwell_new(argv[1], strlen(argv[1]), DEPTH, 2 * want, true);
	u64 now = 1000000, seed = 1, at[STREAMS], before = 0;
	double began = 0;

	if (!host)
		return 2;
	for (u64 i = 0; i < STREAMS; i++)
		at[i] = i << 26;
	while (done < REQUESTS) {
		struct dwell_next next = {};

		if (done == REQUESTS / 10 && !began)
			began = seconds(), before = allocations;
		for (; queued < want; queued++) {
			u32 p;
			struct dwell_submission s;

			seed = seed * 6364136223846793005u + 1442695040888963407u;
			p = (seed >> 33) % STREAMS;
			s = (struct dwell_submission){
				.rq = host, .sector = is_random ? (seed >> 28) & ~7ull : at[p], .sectors = 8,
				.op = (seed >> 40) % 4 == 0, .flags = 1, .class = 2, .level = 4,
				.process = { 100 + p, 100 + p, 100 + p },
			};
			at[p] += 8;
			dwell_insert(host, now += 500, &s);
		}
		if (in_flight < DEPTH)
			dwell_next(host, now += 500, &next);
		if (next.what == 1) {
			flying[in_flight++] = next.id;
			queued--;
		} else if (in_flight) {
			dwell_completed(host, now += SERVICE_NS, flying[0], 0);
			memmove(flying, flying + 1, --in_flight * sizeof(*flying));
			done++;
		} else if (next.what == 2 && next.until > now) {
			now = next.until;
		}
	}
	printf("%-18s %6u queued, %-7s %5.0f ns a request, %llu allocations, %llu KiB at most (%.0f bytes a request)\n", argv[1],
	       want, is_random ? "random:" : "streams:", (seconds() - began) / (REQUESTS * 0.9) * 1e9,
	       (unsigned long long)(allocations - before), (unsigned long long)peak >> 10, (double)peak / want);
	return 0;
}
