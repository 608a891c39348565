// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * bench POLICY QUEUED [warm-up]: what the object that goes into the module costs in user space, with QUEUED requests queued all the time; with
 * `warm-up` it ends after its first turns, for `kernel/build instructions`. The load is that of `cargo bench -p dwell-schedulers --bench policies`: each turn inserts a request at a random place, asks until one is dispatched,
 * and completes it. Prints
 *
 * - nanoseconds a turn, the lowest tenth of many short rounds, as that bench does;
 * - how long single calls took (the queue's lock is held for one call each): a histogram, and the longest. Each call is measured in PASSES
 *   equal runs and its shortest time counts, since interrupts take longer than any call;
 * - allocations after the warm-up, and the most bytes that blocks of powers of two occupied, as arena.c counts them.
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
u32 dwell_traits(const void *);
void dwell_free(void *);

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

static u64 nanoseconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

enum { PROCESSES = 16, ROUNDS = 100, TURNS = 2000, TURN_NS = 1000000, SECTORS = 976773168, BUCKETS = 8 };
enum { PASSES = 5, CALLS = 300000 };

static u64 now, seed;
/* Nanoseconds of a call, and which of the three it is. */
static struct call {
	u32 ns;
	u8 which;
} call_of[CALLS];
static u32 calls;
static bool is_timed, is_first_pass, is_light;

static u64 begin_call(void)
{
	return is_timed ? nanoseconds() : 0;
}

static void end_call(u8 which, u64 began)
{
	u32 ns;

	if (!is_timed || calls == CALLS)
		return;
	ns = nanoseconds() - began;
	if (is_first_pass || ns < call_of[calls].ns)
		call_of[calls] = (struct call){ ns, which };
	calls++;
}

static void insert(void *host)
{
	struct dwell_submission s;
	u64 began;
	u32 p;

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	p = 100 + (seed >> 40) % PROCESSES;
	s = (struct dwell_submission){
		.rq = host, .sector = (seed >> 32) * (u64)SECTORS >> 32, .sectors = 8, .op = (seed >> 20) % 3 == 0,
		.class = 2, .level = 4, .process = { p, p, p },
	};
	began = begin_call();
	dwell_insert(host, now, &s);
	end_call(0, began);
}

static void turn(void *host)
{
	struct dwell_next next;
	u64 began;

	insert(host);
	for (;;) {
		began = begin_call();
		dwell_next(host, now, &next);
		end_call(1, began);
		if (next.what == 1)
			break;
		if (next.what != 2) {
			fprintf(stderr, "answer %u with requests queued and none at the device\n", next.what);
			exit(1);
		}
		now = next.until;
	}
	now += TURN_NS;
	/* A request of a light policy has ended. */
	if (is_light)
		return;
	began = begin_call();
	dwell_completed(host, now, next.id, 0);
	end_call(2, began);
}

static int order(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

static void *start(const char *policy, u32 queued)
{
	void *host = dwell_new(policy, strlen(policy), 1, 2 * queued, true);

	now = 1000000;
	seed = 1;
	if (!host)
		exit(2);
	is_light = dwell_traits(host) & 1;
	for (u32 i = 1; i < queued; i++)
		insert(host);
	for (u64 i = 0; i < 20ull * (queued > 10000 ? queued : 10000); i++)
		turn(host);
	return host;
}

static double lowest_tenth(void *host)
{
	double rounds[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		u64 began = nanoseconds();

		for (int i = 0; i < TURNS; i++)
			turn(host);
		rounds[round] = (double)(nanoseconds() - began) / TURNS;
	}
	qsort(rounds, ROUNDS, sizeof(*rounds), order);
	return rounds[ROUNDS / 10];
}

static void time_calls(const char *policy, u32 queued)
{
	u32 longest[3] = {}, histogram[BUCKETS] = {};

	for (int pass = 0; pass < PASSES; pass++) {
		void *host = start(policy, queued);

		is_timed = true;
		is_first_pass = !pass;
		for (calls = 0; calls < CALLS;)
			turn(host);
		is_timed = false;
		dwell_free(host);
	}
	for (u32 i = 0; i < CALLS; i++) {
		int bucket = 0;

		while (bucket < BUCKETS - 1 && call_of[i].ns >= 250u << bucket)
			bucket++;
		histogram[bucket]++;
		if (call_of[i].ns > longest[call_of[i].which])
			longest[call_of[i].which] = call_of[i].ns;
	}
	printf("longest insert %.1f us, next %.1f us, completed %.1f us; of %d calls", longest[0] / 1e3, longest[1] / 1e3, longest[2] / 1e3,
	       CALLS);
	for (int i = 0; i < BUCKETS; i++)
		if (histogram[i])
			printf(" %s%g us: %u", i < BUCKETS - 1 ? "<" : ">=", 0.25 * (1 << (i < BUCKETS - 1 ? i : i - 1)), histogram[i]);
}

int main(int argc, char **argv)
{
	u32 queued = argc > 2 ? atoi(argv[2]) : 128;
	void *host;
	u64 before;

	if (argc < 2)
		return 2;
	host = start(argv[1], queued);
	if (argc > 3)
		return 0;
	before = allocations;
	printf("%-18s %6u queued: %5.0f ns, ", argv[1], queued, lowest_tenth(host));
	printf("%llu allocations, %llu KiB; ", (unsigned long long)(allocations - before), (unsigned long long)peak >> 10);
	dwell_free(host);
	time_calls(argv[1], queued);
	putchar('\n');
	return 0;
}
