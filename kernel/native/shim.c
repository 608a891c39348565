// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * shim POLICY QUEUED [warm-up]: what the whole module costs, C files and policy, in user space (stand_in.h stands for the kernel). The load is
 * bench.c's. Each turn passes the module as a request does: bio_merge, prepare_request, insert_requests, has_work, dispatch_request,
 * completed_request, finish_request. Prints
 *
 * - nanoseconds a turn, the lowest tenth of many short rounds; the same with iosched/timing on, and of the C files alone, which serve first come,
 *   first served after a fault;
 * - nanoseconds a turn of each of two threads that contend for the queue: of the rounds in which the other thread ran as well;
 * - how long the lock was held, on one thread: each hold is measured in PASSES equal runs and the shortest counts, since an interrupt of
 *   this machine takes longer than any.
 *
 * With `warm-up` it ends after its first turns, for `kernel/build instructions`.
 *
 * shim check: what no guest shows reliably, see check_exit(), check_memory() and check_depth().
 */
#include <pthread.h>
#include <time.h>

#include "stand_in.h"
#include "../module/queue.h"

enum { PROCESSES = 16, ROUNDS = 100, TURNS = 2000, PASSES = 5, TURN_NS = 1000000, SECTORS = 976773168 };
enum { HOLDS = 600000, BUCKETS = 8 };

u64 tsc_scale, load_now;
/* Each thread has processes of its own. */
__thread struct task_struct *current;
static __thread struct task_struct tasks[PROCESSES];
static __thread struct io_context contexts[PROCESSES];
static __thread struct dwell_icq icqs[PROCESSES];
static __thread struct request **free_requests;
static __thread u32 free_count;
static __thread u64 seed;
static struct dwell_elevator elevator;
static struct blk_mq_tag_set tag_set = { .queue_depth = 1 };
static struct request_queue queue = { .queue_depth = 1, .tag_set = &tag_set };
struct blk_mq_hw_ctx hw_queue = { .queue = &queue };

/* ---- how long the lock is held ---- */

static u64 taken;
/* Nanoseconds of a hold, the least of the passes; number of holds in this pass. */
static u32 hold_ns[HOLDS], holds;
static bool is_timed, is_first_pass;

void lock_taken(void)
{
	if (is_timed)
		taken = local_clock();
}

void lock_released(void)
{
	u32 ns;

	if (!is_timed || holds == HOLDS)
		return;
	ns = local_clock() - taken;
	if (is_first_pass || ns < hold_ns[holds])
		hold_ns[holds] = ns;
	holds++;
}

/* ---- the kernel's part ---- */

const char *dwell_spec_of(const struct dwell_elevator *e)
{
	return e->spec;
}

bool dwell_may_inject(void)
{
	return false;
}

struct elevator_queue *elevator_alloc(struct request_queue *q, struct elevator_type *type)
{
	struct elevator_queue *eq = calloc(1, sizeof(*eq));

	(void)q;
	eq->type = type;
	return eq;
}

struct io_cq *ioc_find_get_icq(struct request_queue *q)
{
	struct dwell_icq *icq = &icqs[current - tasks];

	(void)q;
	icq->icq.ioc->references++;
	return &icq->icq;
}

struct io_cq *ioc_lookup_icq(struct request_queue *q)
{
	(void)q;
	return &icqs[current - tasks].icq;
}

/* The block layer's table of requests by their end. The module leaves it to requests that have grown; here none does. */
static bool is_in_table(struct request_queue *q, sector_t end)
{
	return q->elevator->hash[end * 0x61c8864680b583ebull >> (64 - ELV_HASH_BITS)].first;
}

void elv_rqhash_del(struct request_queue *q, struct request *rq)
{
	(void)q, (void)rq;
}

void elv_rb_add(struct rb_root *root, struct request *rq)
{
	struct rb_node **at = &root->rb_node, *parent = NULL;

	while (*at) {
		parent = *at;
		at = rq->sector < container_of(parent, struct request, rb_node)->sector ? &parent->rb_left : &parent->rb_right;
	}
	rq->rb_node = (struct rb_node){ .parent = parent };
	*at = &rq->rb_node;
}

static void replace(struct rb_root *root, struct rb_node *old, struct rb_node *new)
{
	if (!old->parent)
		root->rb_node = new;
	else if (old->parent->rb_left == old)
		old->parent->rb_left = new;
	else
		old->parent->rb_right = new;
	if (new)
		new->parent = old->parent;
}

void elv_rb_del(struct rb_root *root, struct request *rq)
{
	struct rb_node *node = &rq->rb_node, *next;

	if (!node->rb_left || !node->rb_right) {
		replace(root, node, node->rb_left ?: node->rb_right);
		return;
	}
	for (next = node->rb_right; next->rb_left;)
		next = next->rb_left;
	if (next->parent != node) {
		replace(root, next, next->rb_right);
		next->rb_right = node->rb_right;
		next->rb_right->parent = next;
	}
	replace(root, node, next);
	next->rb_left = node->rb_left;
	next->rb_left->parent = next;
}

struct request *elv_rb_former_request(struct request_queue *q, struct request *rq)
{
	return (void)q, (void)rq, NULL;
}

struct request *elv_rb_latter_request(struct request_queue *q, struct request *rq)
{
	return (void)q, (void)rq, NULL;
}

bool elv_bio_merge_ok(struct request *rq, struct bio *bio)
{
	return (void)rq, (void)bio, false;
}

/* Looks for a request to grow where blk-mq looks, and finds none: the load is at random. */
bool blk_mq_sched_try_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs, struct request **unneeded)
{
	struct request *rq;

	(void)nr_segs, (void)unneeded;
	return is_in_table(q, bio->bi_iter.bi_sector) || q->elevator->type->ops.request_merge(q, &rq, bio) != ELEVATOR_NO_MERGE;
}

bool blk_mq_sched_try_insert_merge(struct request_queue *q, struct request *rq, struct list_head *unneeded)
{
	return (void)unneeded, is_in_table(q, rq->sector);
}

/* The block layer holds the lock of an I/O context, which it takes after that of the queue. */
static bool is_context_locked;

void blk_mq_run_hw_queues(struct request_queue *q, bool async)
{
	(void)q, (void)async;
	if (is_context_locked) {
		fprintf(stderr, "the queues run, which may take the queue's lock, under the lock of an I/O context\n");
		exit(1);
	}
}

/* ---- the load ---- */

static void insert(void)
{
	struct request *rq = free_requests[--free_count];
	struct bio bio = { .sectors = 8 };
	LIST_HEAD(list);

	seed = seed * 6364136223846793005u + 1442695040888963407u;
	current = &tasks[(seed >> 40) % PROCESSES];
	bio.bi_iter.bi_sector = (seed >> 32) * (u64)SECTORS >> 32 & ~7ull;
	bio.bi_opf = (seed >> 20) % 3 == 0 ? REQ_OP_WRITE : REQ_OP_READ;
	dwell_ops.bio_merge(&queue, &bio, 1);
	*rq = (struct request){ .q = &queue, .cmd_flags = bio.bi_opf, .sector = bio.bi_iter.bi_sector, .sectors = bio.sectors };
	dwell_ops.prepare_request(rq);
	list_add(&rq->queuelist, &list);
	dwell_ops.insert_requests(&hw_queue, &list, 0);
}

static bool are_two;

/* The policy holds: time passes until its timer. The other thread may have passed it, or may have the request whose completion ends the hold. */
static void wait_for_timer(struct dwell_queue *d)
{
	u64 now = READ_ONCE(load_now), until = READ_ONCE(d->timer.expires);

	if (until <= now && !are_two) {
		fprintf(stderr, "nothing to wait for: fault %d, %u queued\n", d->fault, d->queued);
		exit(1);
	}
	if (until > now && __atomic_compare_exchange_n(&load_now, &now, until, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		d->timer.function(&d->timer);
}

static void turn(void)
{
	struct dwell_queue *d = queue.elevator->elevator_data;
	struct request *rq;

	insert();
	while (!dwell_ops.has_work(&hw_queue) || !(rq = dwell_ops.dispatch_request(&hw_queue)))
		wait_for_timer(d);
	if (are_two)
		__atomic_add_fetch(&load_now, TURN_NS, __ATOMIC_RELAXED);
	else
		load_now += TURN_NS;
	dwell_ops.completed_request(rq, load_now);
	dwell_ops.finish_request(rq);
	free_requests[free_count++] = rq;
}

static int order(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;

	return (a > b) - (a < b);
}

/* The processes and unused requests of this thread, one of two. */
static void equip(int thread, u32 count)
{
	struct request *requests = calloc(count, sizeof(*requests));

	for (int i = 0; i < PROCESSES; i++) {
		u32 pid = 100 + thread * PROCESSES + i;

		tasks[i] = (struct task_struct){ pid, pid, &contexts[i] };
		icqs[i] = (struct dwell_icq){ .icq = { &queue, &contexts[i] }, .process = { pid, pid, pid } };
	}
	free_requests = calloc(count + 1, sizeof(*free_requests));
	for (free_count = 0; free_count < count; free_count++)
		free_requests[free_count] = &requests[free_count];
	seed = 1 + thread;
}

static void start(u32 queued)
{
	load_now = 1000000;
	queue.nr_requests = 2 * queued;
	queue.last_merge = NULL;
	equip(0, queued + 1);
	if (dwell_ops.init_sched(&queue, &elevator.type))
		exit(2);
	for (u32 i = 1; i < queued; i++)
		insert();
	for (u64 i = 0; i < 20ull * max(queued, 10000u); i++)
		turn();
}

/* ---- checks ---- */

static void expect(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "shim check: %s\n", what);
	exit(1);
}

static struct dwell_queue *choose(const char *policy)
{
	struct dwell_queue *d;

	elevator = (struct dwell_elevator){ .type = { .elevator_name = "dwell", .ops = dwell_ops }, .spec = policy };
	d = dwell_learn(&elevator);
	expect(!IS_ERR(d), "the policy cannot be made");
	dwell_forget(d);
	load_now = 1000000;
	queue.nr_requests = 128;
	queue.last_merge = NULL;
	equip(0, 2);
	expect(!dwell_ops.init_sched(&queue, &elevator.type), "the queue cannot be made");
	return queue.elevator->elevator_data;
}

static struct request *submit(int process, u64 sector)
{
	struct request *rq = free_requests[--free_count];
	LIST_HEAD(list);

	current = &tasks[process];
	*rq = (struct request){ .q = &queue, .cmd_flags = REQ_OP_READ, .sector = sector, .sectors = 8 };
	dwell_ops.prepare_request(rq);
	list_add(&rq->queuelist, &list);
	dwell_ops.insert_requests(&hw_queue, &list, 0);
	return rq;
}

/* A process exits while the policy waits for its next request and another one's is queued. */
static void check_exit(void)
{
	struct dwell_queue *d = choose("cfq-2.6.32");
	struct request *first, *second;

	dwell_ops.init_icq(&icqs[0].icq);
	dwell_ops.init_icq(&icqs[1].icq);
	first = submit(0, 0);
	expect(dwell_ops.dispatch_request(&hw_queue) == first, "the only request is not dispatched");
	load_now += TURN_NS;
	dwell_ops.completed_request(first, load_now);
	second = submit(1, SECTORS / 2);
	expect(!dwell_ops.dispatch_request(&hw_queue) && !dwell_ops.has_work(&hw_queue), "the policy does not wait");
	is_context_locked = true;
	dwell_ops.exit_icq(&icqs[0].icq);
	is_context_locked = false;
	expect(d->timer.expires <= load_now, "the timer does not run the queues after the exit");
	d->timer.function(&d->timer);
	expect(dwell_ops.has_work(&hw_queue) && dwell_ops.dispatch_request(&hw_queue) == second, "the wait does not end with its process");
}

/* Processes that read once and exit leave nothing in the policy. */
static void check_memory(const char *policy)
{
	struct dwell_queue *d = choose(policy);
	size_t used = 0;

	for (u32 n = 0; n < 3000; n++) {
		int process = n % PROCESSES;
		struct request *rq;

		tasks[process].pid = tasks[process].tgid = 1000 + n;
		dwell_ops.init_icq(&icqs[process].icq);
		rq = submit(process, n * 7919 % 1000 * 100000);
		while (!dwell_ops.dispatch_request(&hw_queue))
			wait_for_timer(d);
		load_now += TURN_NS;
		dwell_ops.completed_request(rq, load_now);
		dwell_ops.finish_request(rq);
		free_requests[free_count++] = rq;
		dwell_ops.exit_icq(&icqs[process].icq);
		if (n == 300)
			used = d->arena.used;
	}
	expect(d->arena.used <= used, "processes that exited occupy memory of the policy");
}

/* nr_requests grows: before 6.18 depth_updated() is called before the block layer sets q->nr_requests. */
static void check_depth(void)
{
	struct dwell_queue *d = choose("bfq");
	struct blk_mq_tags tags = { .bitmap_tags = { .sb = { .depth = 1024 } } };

	hw_queue.sched_tags = &tags;
	dwell_ops.depth_updated(&hw_queue);
	hw_queue.sched_tags = NULL;
	expect(d->arena.capacity >= dwell_arena_size(1024), "the arena does not grow with nr_requests");
}

static u64 monotonic(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void calibrate(void)
{
	u64 tsc = __rdtsc(), from = monotonic(), ns;

	do
		ns = monotonic() - from;
	while (ns < 50000000);
	tsc_scale = (ns << 32) / (__rdtsc() - tsc);
}

static double lowest_tenth(void)
{
	double rounds[ROUNDS];

	for (int round = 0; round < ROUNDS; round++) {
		u64 began = local_clock();

		for (int i = 0; i < TURNS; i++)
			turn();
		rounds[round] = (double)(local_clock() - began) / TURNS;
	}
	qsort(rounds, ROUNDS, sizeof(*rounds), order);
	return rounds[ROUNDS / 10];
}

/* The second thread: its turns so far, and whether it ends. */
static struct {
	u64 turns;
	bool is_over;
} __aligned(64) other;

static void *compete(void *unused)
{
	equip(1, 2);
	while (!READ_ONCE(other.is_over)) {
		turn();
		WRITE_ONCE(other.turns, other.turns + 1);
	}
	return unused;
}

/* Nanoseconds a turn of this thread while the other makes at least half as many; 0 if it never did. */
static double contended(void)
{
	double rounds[ROUNDS];
	pthread_t thread;
	int n = 0;

	queue.queue_depth = 2;
	are_two = true;
	other.is_over = false;
	if (pthread_create(&thread, NULL, compete, NULL))
		exit(1);
	for (int tries = 0; n < ROUNDS && tries < 20 * ROUNDS; tries++) {
		u64 turns = READ_ONCE(other.turns), began = local_clock();

		for (int i = 0; i < TURNS; i++)
			turn();
		rounds[n] = (double)(local_clock() - began) / TURNS;
		n += READ_ONCE(other.turns) - turns >= TURNS / 2;
	}
	WRITE_ONCE(other.is_over, true);
	pthread_join(thread, NULL);
	are_two = false;
	queue.queue_depth = 1;
	qsort(rounds, n, sizeof(*rounds), order);
	return n ? rounds[n / 10] : 0;
}

int main(int argc, char **argv)
{
	u32 queued = argc > 2 ? atoi(argv[2]) : 128, histogram[BUCKETS] = {}, longest = 0;
	struct dwell_queue *d;

	if (argc < 2)
		return 2;
	if (!strcmp(argv[1], "check")) {
		check_exit();
		check_memory("cfq-2.6.32");
		check_memory("bfq");
		check_memory("anticipatory");
		check_memory("cooperative");
		check_depth();
		return 0;
	}
	calibrate();
	elevator = (struct dwell_elevator){ .type = { .elevator_name = "dwell", .ops = dwell_ops }, .spec = argv[1] };
	if (IS_ERR(d = dwell_learn(&elevator)))
		return 2;
	dwell_forget(d);
	start(queued);
	if (argc > 3)
		return 0;
	d = queue.elevator->elevator_data;
	printf("%-18s %6u queued: %5.0f ns, ", argv[1], queued, lowest_tenth());
	d->is_timed = true;
	printf("%.0f with timing, ", lowest_tenth());
	d->is_timed = false;
	printf("%.0f each of two threads, ", contended());
	d->fault = DWELL_STARVED;
	printf("%.0f the C files alone; ", lowest_tenth());
	for (int pass = 0; pass < PASSES; pass++) {
		start(queued);
		is_timed = true;
		is_first_pass = !pass;
		for (holds = 0; holds < HOLDS;)
			turn();
		is_timed = false;
	}
	for (u32 i = 0; i < HOLDS; i++) {
		int bucket = 0;

		while (bucket < BUCKETS - 1 && hold_ns[i] >= 250u << bucket)
			bucket++;
		histogram[bucket]++;
		longest = max(longest, hold_ns[i]);
	}
	printf("longest hold %.1f us; of %d holds", longest / 1e3, HOLDS);
	for (int i = 0; i < BUCKETS; i++)
		if (histogram[i])
			printf(" %s%g us: %u", i < BUCKETS - 1 ? "<" : ">=", 0.25 * (1 << (i < BUCKETS - 1 ? i : i - 1)), histogram[i]);
	putchar('\n');
	return 0;
}
