// SPDX-License-Identifier: GPL-2.0-only
/*
 * The elevator's operations. The kernel merges, limits, tags and flushes; the policy chooses the next request. The policy is
 * called under the queue's lock, with interrupts off unless it is light. The queue keeps every request in a list of its own, in
 * order of arrival, and serves that list if the policy fails.
 */
#include <linux/bio.h>
#include <linux/jiffies.h>
#include <linux/module.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <trace/events/block.h>

#include "queue.h"
#include "request.h"
#define CREATE_TRACE_POINTS
#include "trace.h"

/* Added to queue_limit_ms for every queued request: a slow disk with a full queue needs that long. */
#define QUEUE_LIMIT_EACH_MS 100

u32 dwell_depth(const struct dwell_queue *d)
{
	struct request_queue *q = d->q;

	return READ_ONCE(d->depth) ?: READ_ONCE(q->queue_depth) ?: min_t(u32, q->tag_set->queue_depth, q->nr_requests);
}

/* ---- arrival ---- */

static void dwell_prepare_request(struct request *rq)
{
	rq->elv.icq = dwell_queue(rq->q)->elevator->ignores_processes ? NULL : ioc_find_get_icq(rq->q);
	if (rq->elv.icq) {
		struct dwell_process *process = &dwell_icq(rq->elv.icq)->process;

		WRITE_ONCE(process->task, current->pid);
		WRITE_ONCE(process->group, current->tgid);
	}
	rq->elv.priv[0] = NULL;
	rq->elv.priv[1] = (void *)(unsigned long)((u64)current->tgid << 32 | (u32)current->pid);
}

static void unlink(struct dwell_queue *d, struct request *rq)
{
	d->found.link = NULL;
	list_del_init(&rq->queuelist);
	elv_rb_del(&d->sorted[rq_data_dir(rq)], rq);
	/* A request that has grown is in the block layer's table. */
	elv_rqhash_del(d->q, rq);
	if (d->q->last_merge == rq)
		d->q->last_merge = NULL;
	d->queued--;
}

/*
 * A bio for which no queued request was found becomes a request of the same sector. The place found for the bio is kept in d->found, and used
 * for that request unless the tree has changed.
 */
static const struct dwell_place *place_of(struct dwell_queue *d, int direction, sector_t sector)
{
	struct dwell_place place = { .link = &d->sorted[direction].rb_node, .sector = sector, .direction = direction };

	if (d->found.link && d->found.sector == sector && d->found.direction == direction)
		return &d->found;
	while (*place.link) {
		struct request *rq = rb_entry(*place.link, struct request, rb_node);

		place.parent = *place.link;
		if (blk_rq_pos(rq) < sector) {
			place.before = rq;
			place.link = &place.parent->rb_right;
		} else {
			place.after = rq;
			place.link = &place.parent->rb_left;
		}
	}
	d->found = place;
	return &d->found;
}

/*
 * To find the request that `rq` continues, the block layer looks in q->last_merge, then in a table of 64 buckets, which takes long with
 * thousands queued. The module finds it in the tree, and leaves the table to requests that have grown.
 */
static bool try_insert_merge(struct dwell_queue *d, struct request *rq, const struct dwell_place *place, struct list_head *unneeded)
{
	if (place->before && end_of(place->before) == blk_rq_pos(rq) && !blk_queue_noxmerges(d->q))
		d->q->last_merge = place->before;
	return blk_mq_sched_try_insert_merge(d->q, rq, unneeded);
}

/* The policy receives a queued request. */
static void introduce(struct dwell_queue *d, struct request *rq, u64 now)
{
	struct dwell_submission submission;

	describe(&submission, rq->cmd_flags, req_get_ioprio(rq), blk_rq_pos(rq), blk_rq_sectors(rq));
	submission.rq = rq;
	submission.process = submitter(rq);
	/* The result if the policy has failed and sets none: any value for which the state is not 0. */
	d->result = DWELL_NO_ID - 1;
	policy_insert(d, now, &submission);
	set_state(rq, (u64)d->result + 1);
}

static inline void link(struct dwell_queue *d, struct request *rq, const struct dwell_place *place)
{
	rb_link_node(&rq->rb_node, place->parent, place->link);
	rb_insert_color(&rq->rb_node, &d->sorted[rq_data_dir(rq)]);
	d->found.link = NULL;
	if (!d->q->last_merge && is_mergeable(rq))
		d->q->last_merge = rq;
	list_add_tail(&rq->queuelist, &d->fifo);
}

void dwell_settle_lone(struct dwell_queue *d)
{
	struct request *rq = d->lone;

	d->lone = NULL;
	link(d, rq, place_of(d, rq_data_dir(rq), blk_rq_pos(rq)));
	introduce(d, rq, d->lone_arrived);
}

static void insert(struct dwell_queue *d, struct request *rq, blk_insert_t flags, u64 now, struct list_head *unneeded)
{
	const struct dwell_place *place;

	if (flags & BLK_MQ_INSERT_AT_HEAD || !is_ours(rq) || state(rq) & GIVEN_BACK || op_of(rq->cmd_flags) < 0) {
		trace_block_rq_insert(rq);
		set_state(rq, 0);
		if (flags & BLK_MQ_INSERT_AT_HEAD)
			list_add(&rq->queuelist, &d->bypass);
		else
			list_add_tail(&rq->queuelist, &d->bypass);
		d->stats.bypassed++;
		return;
	}
	rq->fifo_time = jiffies;
	if (d->is_light && !d->queued && !d->is_injected) {
		trace_block_rq_insert(rq);
		d->lone = rq;
		d->lone_arrived = now;
	} else {
		dwell_settle(d);
		place = place_of(d, rq_data_dir(rq), blk_rq_pos(rq));
		if (try_insert_merge(d, rq, place, unneeded))
			return;
		trace_block_rq_insert(rq);
		link(d, rq, place);
		introduce(d, rq, now);
	}
	d->queued++;
	d->stats.inserted++;
}

static void dwell_insert_requests(struct blk_mq_hw_ctx *hctx, struct list_head *list, blk_insert_t flags)
{
	struct dwell_queue *d = dwell_queue(hctx->queue);
	struct request *rq, *next;
	LIST_HEAD(unneeded);
	unsigned long irq;
	u64 now;

	irq = dwell_lock(d);
	/* Reading the clock costs as much as a light policy. */
	if (d->is_light)
		now = d->now = max(d->now, list_first_entry(list, struct request, queuelist)->start_time_ns);
	else
		now = dwell_now(d);
	list_for_each_entry_safe(rq, next, list, queuelist) {
		list_del_init(&rq->queuelist);
		insert(d, rq, flags, now, &unneeded);
	}
	d->is_waiting = false;
	dwell_unlock(d, irq);
	list_for_each_entry_safe(rq, next, &unneeded, queuelist) {
		list_del_init(&rq->queuelist);
		blk_mq_free_request(rq);
	}
}

/* A policy may allow a submitter fewer or more requests than the limit. The block layer takes only a depth, so only fewer has an effect. */
static void dwell_limit_depth(blk_opf_t opf, struct blk_mq_alloc_data *data)
{
	struct dwell_queue *d = dwell_queue(data->q);
	struct dwell_process process;
	struct io_cq *icq = NULL;
	unsigned long irq;

	if (op_of(opf) < 0)
		return;
	if (current->io_context) {
		if (!DWELL_LOOKUP_UNLOCKED)
			spin_lock_irqsave(&data->q->queue_lock, irq);
		icq = ioc_lookup_icq(data->q);
		if (!DWELL_LOOKUP_UNLOCKED)
			spin_unlock_irqrestore(&data->q->queue_lock, irq);
	}
	process = current_process(icq);
	irq = dwell_lock(d);
	d->result = DWELL_BY_LIMIT;
	policy_may_queue(d, process, op_is_write(opf), op_is_sync(opf));
	if (d->result == DWELL_NOT_NOW)
		data->shallow_depth = 1;
	dwell_unlock(d, irq);
}

/* ---- merges ---- */

static bool dwell_bio_merge(struct request_queue *q, struct bio *bio, unsigned int nr_segs)
{
	struct dwell_queue *d = dwell_queue(q);
	struct request *unneeded = NULL;
	unsigned long irq;
	bool merged;

	if (!READ_ONCE(d->queued))
		return false;
	irq = dwell_lock(d);
	dwell_settle(d);
	merged = blk_mq_sched_try_merge(q, bio, nr_segs, &unneeded);
	dwell_unlock(d, irq);
	if (unneeded)
		blk_mq_free_request(unneeded);
	return merged;
}

static int dwell_request_merge(struct request_queue *q, struct request **rq, struct bio *bio)
{
	struct dwell_queue *d = dwell_queue(q);
	sector_t sector = bio->bi_iter.bi_sector;
	const struct dwell_place *place = place_of(d, bio_data_dir(bio), sector);
	int kind;

	if (place->before && end_of(place->before) == sector && elv_bio_merge_ok(place->before, bio)) {
		*rq = place->before;
		kind = ELEVATOR_BACK_MERGE;
	} else if (place->after && blk_rq_pos(place->after) == bio_end_sector(bio) && elv_bio_merge_ok(place->after, bio)) {
		*rq = place->after;
		kind = ELEVATOR_FRONT_MERGE;
	} else {
		return ELEVATOR_NO_MERGE;
	}
	return is_discard_mergeable(*rq) ? ELEVATOR_DISCARD_MERGE : kind;
}

/* Also called without the lock, for requests that are plugged and not queued: those have no state. */
static bool dwell_allow_merge(struct request_queue *q, struct request *rq, struct bio *bio)
{
	struct dwell_queue *d = dwell_queue(q);
	struct dwell_submission submission;
	bool is_front;

	if (!state(rq))
		return true;
	describe(&submission, bio->bi_opf, bio->bi_ioprio, bio->bi_iter.bi_sector, bio_sectors(bio));
	submission.process = current_process(NULL);
	is_front = bio_end_sector(bio) == blk_rq_pos(rq);
	d->result = true;
	policy_may_merge(d, id_of(rq), &submission, is_front);
	return d->result;
}

static void grew(struct dwell_queue *d, struct request *rq, u32 absorbed)
{
	if (!state(rq))
		return;
	d->stats.merged++;
	policy_merged(d, id_of(rq), blk_rq_pos(rq), blk_rq_sectors(rq), absorbed);
}

static void dwell_request_merged(struct request_queue *q, struct request *rq, enum elv_merge type)
{
	struct dwell_queue *d = dwell_queue(q);

	if (type == ELEVATOR_FRONT_MERGE) {
		d->found.link = NULL;
		elv_rb_del(&d->sorted[rq_data_dir(rq)], rq);
		elv_rb_add(&d->sorted[rq_data_dir(rq)], rq);
	}
	grew(d, rq, DWELL_NO_ID);
}

/* `next` may be a request that is just being inserted, which the policy does not have. */
static void dwell_requests_merged(struct request_queue *q, struct request *rq, struct request *next)
{
	struct dwell_queue *d = dwell_queue(q);

	grew(d, rq, state(next) ? id_of(next) : DWELL_NO_ID);
	if (state(next)) {
		unlink(d, next);
		set_state(next, 0);
	}
}

/* ---- dispatch ---- */

static struct request *oldest(struct dwell_queue *d)
{
	return list_first_entry_or_null(&d->fifo, struct request, queuelist);
}

/* Whether the policy has left a request queued for too long. Idle-class requests may wait for as long as others are served. */
static bool is_starving(struct dwell_queue *d)
{
	struct request *rq = oldest(d);
	u64 limit_ms = READ_ONCE(d->queue_limit_ms) + (u64)QUEUE_LIMIT_EACH_MS * d->queued;

	return rq && IOPRIO_PRIO_CLASS(req_get_ioprio(rq)) != IOPRIO_CLASS_IDLE &&
	       time_after(jiffies, (unsigned long)rq->fifo_time + msecs_to_jiffies(min_t(u64, limit_ms, INT_MAX)));
}

static u64 hold_deadline(struct dwell_queue *d)
{
	return d->held_since + (u64)READ_ONCE(d->hold_limit_ms) * NSEC_PER_MSEC;
}

/* The policy holds its requests until `until` (0: a completion). Returns a request if it has held too long. */
static struct request *hold(struct dwell_queue *d, u64 now, u64 until)
{
	char text[64];

	d->stats.held++;
	if (d->is_light) {
		dwell_fail(d, DWELL_WRONG_ANSWER, text, scnprintf(text, sizeof(text), "waits, which no light policy does"));
		return oldest(d);
	}
	if (!dwell_in_flight(d)) {
		if (!d->held_since)
			d->held_since = now;
		if (now >= hold_deadline(d)) {
			dwell_fail(d, DWELL_ENDLESS_HOLD, text,
				   scnprintf(text, sizeof(text), "held %u requests back from an idle device for %u ms",
					     d->queued, d->hold_limit_ms));
			return oldest(d);
		}
		until = until ? min(until, hold_deadline(d)) : hold_deadline(d);
	}
	if (until)
		hrtimer_start(&d->timer, ns_to_ktime(max(until, now + 1)), HRTIMER_MODE_ABS);
	return NULL;
}

static void trace(struct dwell_queue *d, struct request *rq)
{
	struct dwell_next *next = &d->next;

	if (trace_dwell_decision_enabled() && d->q->disk)
		trace_dwell_decision(disk_devt(d->q->disk), next->what, rq, next->what == DWELL_HOLD ? next->until : 0, next->reason,
				     next->reason_length);
}

/* Asks the policy for its next decision, into d->next; false if it has failed. */
static bool decide(struct dwell_queue *d, u64 now, u32 depth)
{
	struct dwell_next *next = &d->next;

	d->stats.asked++;
	if (depth != d->stated_depth) {
		d->stated_depth = depth;
		policy_set_depth(d, depth);
	}
	if (!policy_next(d, now))
		return false;
	if (next->what != DWELL_IDLE)
		trace(d, next->what == DWELL_DISPATCH ? next->rq : NULL);
	return true;
}

/* A light policy dispatches the only request, which no list has. */
static struct request *pass(struct dwell_queue *d)
{
	struct request *rq = d->lone;

	d->lone = NULL;
	d->queued = 0;
	d->stats.asked++;
	if (d->passes_freely && !trace_dwell_decision_enabled())
		return rq;
	if (policy_pass(d, dwell_now(d), rq))
		trace(d, rq);
	return rq;
}

/* The request that the policy dispatches, NULL if it holds. */
static struct request *ask(struct dwell_queue *d, u32 depth)
{
	struct dwell_next *next = &d->next;
	u64 now = dwell_now(d);
	char text[64];

	if (d->fault == DWELL_SOUND && is_starving(d))
		dwell_fail(d, DWELL_STARVED, text,
			   scnprintf(text, sizeof(text), "left a request queued for more than %u ms",
				     READ_ONCE(d->queue_limit_ms)));
	if (!decide(d, now, depth))
		return oldest(d);
	switch (next->what) {
	case DWELL_DISPATCH:
		return next->rq;
	case DWELL_HOLD:
		return hold(d, now, next->until);
	case DWELL_HOLD_FOR_COMPLETION:
		return hold(d, now, 0);
	default:
		return NULL;
	}
}

static bool is_full(struct dwell_queue *d, u32 depth)
{
	if (likely(dwell_in_flight(d) < depth))
		return false;
	d->stats.full++;
	if (!d->is_light)
		return true;
	/* A completion without the lock either sees that the queue waits, or is seen here. */
	WRITE_ONCE(d->is_waiting, true);
	smp_mb(); /* pairs with the barrier in ended() */
	if (dwell_in_flight(d) >= depth)
		return true;
	WRITE_ONCE(d->is_waiting, false);
	return false;
}

static struct request *dwell_dispatch_request(struct blk_mq_hw_ctx *hctx)
{
	struct dwell_queue *d = dwell_queue(hctx->queue);
	struct request *rq;
	unsigned long irq;

	irq = dwell_lock(d);
	rq = list_first_entry_or_null(&d->bypass, struct request, queuelist);
	if (rq) {
		list_del_init(&rq->queuelist);
	} else if (d->queued && !d->is_waiting) {
		u32 depth = dwell_depth(d);

		if (!is_full(d, depth)) {
			if (d->lone) {
				rq = pass(d);
			} else {
				rq = ask(d, depth);
				if (rq)
					unlink(d, rq);
			}
		}
		if (rq) {
			set_state(rq, d->is_light ? DISPATCHED : state(rq) | DISPATCHED);
			d->held_since = 0;
			d->stats.dispatched++;
			d->stats.timed += d->is_timed;
		} else if (!d->is_light) {
			d->is_waiting = true;
		}
	}
	if (rq)
		rq->rq_flags |= RQF_STARTED;
	dwell_unlock(d, irq);
	return rq;
}

/* False while the policy holds: otherwise blk-mq would call every 3 ms. */
static bool dwell_has_work(struct blk_mq_hw_ctx *hctx)
{
	struct dwell_queue *d = dwell_queue(hctx->queue);

	return !list_empty_careful(&d->bypass) || (READ_ONCE(d->queued) && !READ_ONCE(d->is_waiting));
}

/*
 * blk-mq asks for a request only while requests are queued. A policy that waits is asked after every event: it ends the service of a
 * stream or process then, or begins to wait for its next request. The model and a served device ask in the same places.
 */
static void consult(struct dwell_queue *d, u64 now)
{
	u32 depth = dwell_depth(d);

	if (!d->may_wait || d->fault != DWELL_SOUND || dwell_in_flight(d) >= depth)
		return;
	if (decide(d, now, depth) && d->next.what == DWELL_HOLD)
		hrtimer_start(&d->timer, ns_to_ktime(max(d->next.until, now + 1)), HRTIMER_MODE_ABS);
}

/* Something happened that the policy may have waited for. */
static bool resume(struct dwell_queue *d, u64 now)
{
	bool was_waiting = d->is_waiting;

	d->is_waiting = false;
	if (d->queued)
		return was_waiting;
	consult(d, now);
	return false;
}

static void ended(struct request *rq, u32 outcome, u64 now)
{
	struct dwell_queue *d = dwell_queue(rq->q);
	unsigned long irq;
	bool again;

	if (!(state(rq) & DISPATCHED))
		return;
	if (outcome == DWELL_GIVEN_BACK)
		atomic_inc(&d->given_back);
	if (d->is_light) {
		set_state(rq, outcome == DWELL_GIVEN_BACK ? GIVEN_BACK : 0);
		atomic_inc(&d->ended);
		smp_mb__after_atomic(); /* pairs with the barrier in is_full() */
		if (unlikely(READ_ONCE(d->is_waiting))) {
			WRITE_ONCE(d->is_waiting, false);
			blk_mq_run_hw_queues(d->q, true);
		}
		return;
	}
	irq = dwell_lock(d);
	/* `now` was read before the lock was taken. */
	now = d->now = max(d->now, now);
	atomic_set(&d->ended, atomic_read(&d->ended) + 1);
	policy_completed(d, now, id_of(rq), outcome);
	set_state(rq, outcome == DWELL_GIVEN_BACK ? GIVEN_BACK : 0);
	again = resume(d, now);
	dwell_unlock(d, irq);
	if (again)
		blk_mq_run_hw_queues(d->q, true);
}

static void dwell_completed_request(struct request *rq, u64 now)
{
	ended(rq, DWELL_DONE, now);
}

static void dwell_requeue_request(struct request *rq)
{
	ended(rq, DWELL_GIVEN_BACK, ktime_get_ns());
}

/* Also called for a request that never completed. */
static void dwell_finish_request(struct request *rq)
{
	if (unlikely(state(rq) & DISPATCHED))
		ended(rq, DWELL_DONE, ktime_get_ns());
	set_state(rq, 0);
	if (is_ours(rq) && rq->elv.icq) {
		put_io_context(rq->elv.icq->ioc);
		rq->elv.icq = NULL;
	}
}

enum hrtimer_restart dwell_timer(struct hrtimer *timer)
{
	struct dwell_queue *d = container_of(timer, struct dwell_queue, timer);
	unsigned long irq;
	bool again;

	irq = dwell_lock(d);
	d->stats.timer++;
	again = resume(d, dwell_now(d));
	dwell_unlock(d, irq);
	if (again)
		blk_mq_run_hw_queues(d->q, true);
	return HRTIMER_NORESTART;
}

/* ---- processes ---- */

static void dwell_init_icq(struct io_cq *icq)
{
	static atomic_t contexts;
	struct dwell_icq *own = dwell_icq(icq);

	own->d = dwell_queue(icq->q);
	/* Above every pid, so that a context is never taken for a task without one. */
	own->process.context = BIT(31) | (u32)atomic_inc_return(&contexts);
}

static void dwell_exit_icq(struct io_cq *icq)
{
	struct dwell_icq *own = dwell_icq(icq);
	struct dwell_queue *d = own->d;
	unsigned long irq;
	u64 now;

	irq = dwell_lock(d);
	policy_exited(d, own->process);
	now = dwell_now(d);
	/*
	 * The caller holds the lock of the I/O context, and at times that of the queue. blk_mq_run_hw_queues() may take the latter, which
	 * comes before the former. So the timer runs the queues.
	 */
	if (d->queued && d->is_waiting)
		hrtimer_start(&d->timer, ns_to_ktime(now), HRTIMER_MODE_ABS);
	else if (!d->queued)
		resume(d, now);
	dwell_unlock(d, irq);
}

/* ---- operations ---- */

#define DWELL_OPS						\
	.init_sched = dwell_init_sched,				\
	.exit_sched = dwell_exit_sched,				\
	.init_hctx = dwell_init_hctx,				\
	.depth_updated = dwell_depth_updated,			\
	.allow_merge = dwell_allow_merge,			\
	.bio_merge = dwell_bio_merge,				\
	.request_merge = dwell_request_merge,			\
	.request_merged = dwell_request_merged,			\
	.requests_merged = dwell_requests_merged,		\
	.former_request = elv_rb_former_request,		\
	.next_request = elv_rb_latter_request,			\
	.prepare_request = dwell_prepare_request,		\
	.insert_requests = dwell_insert_requests,		\
	.dispatch_request = dwell_dispatch_request,		\
	.has_work = dwell_has_work,				\
	.completed_request = dwell_completed_request,		\
	.requeue_request = dwell_requeue_request,		\
	.finish_request = dwell_finish_request,			\
	.init_icq = dwell_init_icq,				\
	.exit_icq = dwell_exit_icq

const struct elevator_mq_ops dwell_ops = { DWELL_OPS };
/* For policies that limit how many requests a submitter has: the lock is taken once more for each request. */
const struct elevator_mq_ops dwell_ops_limiting = { DWELL_OPS, .limit_depth = dwell_limit_depth };
