// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * shim POLICY QUEUED: what the whole module costs, C files and policy, in user space on one thread (stand_in.h stands for the kernel). The load
 * is bench.c's. Each turn passes the module as a request does: bio_merge, prepare_request, insert_requests, has_work, dispatch_request,
 * completed_request, finish_request. Prints nanoseconds a turn (the lowest tenth of many short rounds), the same with
 * iosched/timing on, and how long the lock was held: each hold is measured in PASSES equal runs and the shortest counts, since an interrupt of this
 * machine takes longer than any.
 */
#include "stand_in.h"
#include "../module/queue.h"

enum { PROCESSES = 16, ROUNDS = 100, TURNS = 2000, PASSES = 5, TURN_NS = 1000000, SECTORS = 976773168 };
enum { HOLDS = 600000, BUCKETS = 8 };

u64 tsc_scale, load_now;
static struct task_struct tasks[PROCESSES];
static struct io_context contexts[PROCESSES];
static struct dwell_icq icqs[PROCESSES];
struct task_struct *current;
static u64 seed;
static struct dwell_elevator elevator;
static struct blk_mq_tag_set tag_set = { .queue_depth = 1 };
static struct request_queue queue = { .queue_depth = 1, .tag_set = &tag_set };
static struct blk_mq_hw_ctx hctx = { .queue = &queue };
static struct request *requests, **free_requests;
static u32 free_count;

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

static struct hlist_head *bucket(struct request_queue *q, sector_t end)
{
	return &q->elevator->hash[end * 0x61c8864680b583ebull >> (64 - ELV_HASH_BITS)];
}

void elv_rqhash_add(struct request_queue *q, struct request *rq)
{
	struct hlist_head *head = bucket(q, rq->sector + rq->sectors);

	rq->hash.next = head->first;
	if (head->first)
		head->first->pprev = &rq->hash.next;
	head->first = &rq->hash;
	rq->hash.pprev = &head->first;
}

void elv_rqhash_del(struct request_queue *q, struct request *rq)
{
	(void)q;
	if (!rq->hash.pprev)
		return;
	*rq->hash.pprev = rq->hash.next;
	if (rq->hash.next)
		rq->hash.next->pprev = rq->hash.pprev;
	rq->hash.pprev = NULL;
}

static struct request *hash_find(struct request_queue *q, sector_t sector)
{
	for (struct hlist_node *at = bucket(q, sector)->first; at; at = at->next) {
		struct request *rq = container_of(at, struct request, hash);

		if (rq->sector + rq->sectors == sector)
			return rq;
	}
	return NULL;
}

void elv_rb_add(struct rb_root *root, struct request *rq)
{
	struct rb_node **at = &root->rb_node, *parent = NULL;

	while (*at) {
		parent = *at;
		at = rq->sector < container_of(parent, struct request, rb_node)->sector ? &parent->left : &parent->right;
	}
	rq->rb_node = (struct rb_node){ .parent = parent };
	*at = &rq->rb_node;
}

static void replace(struct rb_root *root, struct rb_node *old, struct rb_node *new)
{
	if (!old->parent)
		root->rb_node = new;
	else if (old->parent->left == old)
		old->parent->left = new;
	else
		old->parent->right = new;
	if (new)
		new->parent = old->parent;
}

void elv_rb_del(struct rb_root *root, struct request *rq)
{
	struct rb_node *node = &rq->rb_node, *next;

	if (!node->left || !node->right) {
		replace(root, node, node->left ?: node->right);
		return;
	}
	for (next = node->right; next->left;)
		next = next->left;
	if (next->parent != node) {
		replace(root, next, next->right);
		next->right = node->right;
		next->right->parent = next;
	}
	replace(root, node, next);
	next->left = node->left;
	next->left->parent = next;
}

struct request *elv_rb_find(struct rb_root *root, sector_t sector)
{
	for (struct rb_node *at = root->rb_node; at;) {
		struct request *rq = container_of(at, struct request, rb_node);

		if (rq->sector == sector)
			return rq;
		at = sector < rq->sector ? at->left : at->right;
	}
	return NULL;
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
	hash_find(q, bio->bi_iter.bi_sector);
	return q->elevator->type->ops.request_merge(q, &rq, bio) == ELEVATOR_FRONT_MERGE;
}

bool blk_mq_sched_try_insert_merge(struct request_queue *q, struct request *rq, struct list_head *unneeded)
{
	return (void)unneeded, hash_find(q, rq->sector) != NULL;
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
	dwell_ops.insert_requests(&hctx, &list, 0);
}

static void turn(void)
{
	struct dwell_queue *d = queue.elevator->elevator_data;
	struct request *rq;

	insert();
	while (!dwell_ops.has_work(&hctx) || !(rq = dwell_ops.dispatch_request(&hctx))) {
		if (d->timer.expires <= load_now) {
			fprintf(stderr, "nothing to wait for: fault %d, %u queued\n", d->fault, d->queued);
			exit(1);
		}
		load_now = d->timer.expires;
		d->timer.function(&d->timer);
	}
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

static void start(u32 queued)
{
	load_now = 1000000;
	seed = 1;
	queue.nr_requests = 2 * queued;
	queue.last_merge = NULL;
	requests = calloc(queued + 1, sizeof(*requests));
	free_requests = calloc(queued + 1, sizeof(*free_requests));
	for (free_count = 0; free_count <= queued; free_count++)
		free_requests[free_count] = &requests[free_count];
	if (dwell_ops.init_sched(&queue, &elevator.type))
		exit(2);
	for (u32 i = 1; i < queued; i++)
		insert();
	for (u64 i = 0; i < 20ull * max(queued, 10000u); i++)
		turn();
}

static void calibrate(void)
{
	struct timespec { long s, ns; } from, to;
	int clock_gettime(int, struct timespec *);
	u64 tsc = __rdtsc(), ns;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		clock_gettime(CLOCK_MONOTONIC, &to);
		ns = (to.s - from.s) * 1000000000 + to.ns - from.ns;
	} while (ns < 50000000);
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

int main(int argc, char **argv)
{
	u32 queued = argc > 2 ? atoi(argv[2]) : 128, histogram[BUCKETS] = {}, longest = 0;
	struct dwell_queue *d;

	if (argc < 2)
		return 2;
	calibrate();
	for (int i = 0; i < PROCESSES; i++) {
		tasks[i] = (struct task_struct){ 100 + i, 100 + i, &contexts[i] };
		icqs[i] = (struct dwell_icq){ .icq = { &queue, &contexts[i] }, .process = { 100 + i, 100 + i, 100 + i } };
	}
	elevator = (struct dwell_elevator){ .type = { .elevator_name = "dwell", .ops = dwell_ops }, .spec = argv[1] };
	start(queued);
	d = queue.elevator->elevator_data;
	printf("%-18s %6u queued: %5.0f ns, ", argv[1], queued, lowest_tenth());
	d->is_timed = true;
	printf("%.0f with timing; ", lowest_tenth());
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
