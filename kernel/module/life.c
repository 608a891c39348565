// SPDX-License-Identifier: GPL-2.0-only
/* From the choice of an elevator to the next one: a queue's memory, its policy, and their end. */
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "queue.h"

/*
 * How long a policy may hold requests back from an idle device. Published waits are at most 20 ms, the longest that a
 * tunable allows is a minute; a device that stands still for 10 s is a fault.
 */
#define HOLD_LIMIT_MS 10000
/*
 * How long a request of the best-effort or real-time class may stay queued, plus a time for every queued request (queue.c).
 */
#define QUEUE_LIMIT_MS 60000

size_t dwell_arena_size(unsigned long nr_requests)
{
	/*
	 * `kernel/build native` measures what a policy needs: at most 377 KiB with 256 requests queued (cfq), 0.9 KiB for each
	 * of 10,000 (bfq).
	 */
	return SZ_256K + nr_requests * (SZ_1K + SZ_512);
}

static struct dwell_queue *allocate(const struct dwell_elevator *elevator, unsigned long nr_requests, int node)
{
	struct dwell_queue *d;
	unsigned int noio;

	/* The device's queue is frozen: reclaim that writes to it would wait for this function. */
	noio = memalloc_noio_save();
	d = kzalloc_node(sizeof(*d), GFP_KERNEL, node);
	if (d) {
		d->elevator = elevator;
		dwell_arena_init(&d->arena);
		if (dwell_arena_grow(&d->arena, dwell_arena_size(nr_requests))) {
			kfree(d);
			d = NULL;
		}
	}
	memalloc_noio_restore(noio);
	return d;
}

/* With the arena goes what a policy that failed has left. */
static void release(struct dwell_queue *d)
{
	dwell_arena_destroy(&d->arena);
	kfree(d);
}

void dwell_exit_sched(struct elevator_queue *e)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq;

	hrtimer_cancel(&d->timer);
	WARN_ON_ONCE(d->queued || dwell_in_flight(d) || !list_empty(&d->bypass));
	irq = dwell_lock(d);
	policy_free(d);
	dwell_unlock(d, irq);
	release(d);
}

static bool is_rotational(struct request_queue *q)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
	return blk_queue_rot(q);
#else
	return !blk_queue_nonrot(q);
#endif
}

struct dwell_queue *dwell_learn(struct dwell_elevator *elevator)
{
	struct dwell_queue *d = allocate(elevator, 2, NUMA_NO_NODE);

	if (!d)
		return ERR_PTR(-ENOMEM);
	d->stated_depth = 1;
	policy_new(d, dwell_spec_of(elevator), 2, true);
	if (!d->host || !policy_traits(d)) {
		pr_err("dwell: '%s' is not a policy that runs at the block layer\n", dwell_spec_of(elevator));
		release(d);
		return ERR_PTR(-EINVAL);
	}
	elevator->is_light = d->result & DWELL_LIGHT;
	elevator->passes_freely = d->result & DWELL_PASSES_FREELY;
	elevator->may_wait = d->result & DWELL_MAY_WAIT;
	elevator->ignores_processes = d->result & DWELL_IGNORES_PROCESSES;
	return d;
}

void dwell_forget(struct dwell_queue *d)
{
	policy_free(d);
	release(d);
}

static struct dwell_queue *make_queue(struct request_queue *q, const struct dwell_elevator *elevator)
{
	struct dwell_queue *d;
	unsigned long irq;

	if (blk_queue_is_zoned(q)) {
		pr_err("dwell: %s is zoned; Dwell's policies reorder writes, which zones forbid\n",
		       q->disk ? q->disk->disk_name : "?");
		return ERR_PTR(-EINVAL);
	}
	d = allocate(elevator, q->nr_requests, q->node);
	if (!d)
		return ERR_PTR(-ENOMEM);
	d->is_light = elevator->is_light;
	d->passes_freely = elevator->passes_freely;
	d->may_wait = elevator->may_wait;
	/* Two lines, hence two classes for lockdep: one is taken in interrupts, the other with interrupts on. */
	if (d->is_light)
		spin_lock_init(&d->lock);
	else
		spin_lock_init(&d->lock);
	d->q = q;
	d->shows_processes = true;
	d->hold_limit_ms = HOLD_LIMIT_MS;
	d->queue_limit_ms = QUEUE_LIMIT_MS;
	INIT_LIST_HEAD(&d->fifo);
	INIT_LIST_HEAD(&d->bypass);
	d->sorted[0] = d->sorted[1] = RB_ROOT;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 15, 0)
	hrtimer_setup(&d->timer, dwell_timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
#else
	hrtimer_init(&d->timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS);
	d->timer.function = dwell_timer;
#endif
	d->stated_depth = dwell_depth(d);
	irq = dwell_lock(d);
	policy_new(d, dwell_spec_of(elevator), q->nr_requests, is_rotational(q));
	dwell_unlock(d, irq);
	if (!d->host) {
		release(d);
		return ERR_PTR(-EINVAL);
	}
	return d;
}

#if DWELL_CORE_ALLOCATES
int dwell_init_sched(struct request_queue *q, struct elevator_queue *eq)
{
	struct dwell_queue *d = make_queue(q, container_of(eq->type, struct dwell_elevator, type));

	if (IS_ERR(d))
		return PTR_ERR(d);
	eq->elevator_data = d;
	q->elevator = eq;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}
#else
int dwell_init_sched(struct request_queue *q, struct elevator_type *e)
{
	struct elevator_queue *eq = elevator_alloc(q, e);
	struct dwell_queue *d;

	if (!eq)
		return -ENOMEM;
	d = make_queue(q, container_of(e, struct dwell_elevator, type));
	if (IS_ERR(d)) {
		kobject_put(&eq->kobj);
		return PTR_ERR(d);
	}
	eq->elevator_data = d;
	q->elevator = eq;
	blk_queue_flag_set(QUEUE_FLAG_SQ_SCHED, q);
	return 0;
}
#endif

/* The scheduler's tags must allow the depth 1 that dwell_limit_depth() sets. */
int dwell_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index)
{
	if (hctx->sched_tags)
		sbitmap_queue_min_shallow_depth(&hctx->sched_tags->bitmap_tags, 1);
	return 0;
}

/* nr_requests may have grown. */
static void depth_updated(struct request_queue *q)
{
	struct dwell_queue *d = q->elevator ? dwell_queue(q) : NULL;
	unsigned long nr_requests = q->nr_requests;
	struct blk_mq_hw_ctx *hctx;
	size_t size, capacity;
	void *chunk;
	unsigned int noio;
	unsigned long irq, i;

	if (!d)
		return;
	queue_for_each_hw_ctx(q, hctx, i) {
		dwell_init_hctx(hctx, i);
		/* Before 6.18 the block layer sets q->nr_requests after this call. */
		if (hctx->sched_tags)
			nr_requests = max_t(unsigned long, nr_requests, hctx->sched_tags->bitmap_tags.sb.depth);
	}
	size = dwell_arena_size(nr_requests);
	irq = dwell_lock(d);
	capacity = d->arena.capacity;
	dwell_unlock(d, irq);
	if (size <= capacity)
		return;
	noio = memalloc_noio_save();
	chunk = dwell_arena_chunk(size - capacity);
	memalloc_noio_restore(noio);
	if (!chunk)
		return;
	irq = dwell_lock(d);
	dwell_arena_add(&d->arena, chunk, size - capacity);
	dwell_unlock(d, irq);
}

#if DWELL_DEPTH_BY_QUEUE
void dwell_depth_updated(struct request_queue *q)
{
	depth_updated(q);
}
#else
void dwell_depth_updated(struct blk_mq_hw_ctx *hctx)
{
	depth_updated(hctx->queue);
}
#endif
