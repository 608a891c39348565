/* SPDX-License-Identifier: GPL-2.0-only */
/* One scheduled queue: the requests that the kernel owns, the policy that orders them, and what happens if it fails. */
#ifndef DWELL_QUEUE_H
#define DWELL_QUEUE_H

#include <linux/hrtimer.h>
#include <linux/iocontext.h>
#include <linux/sched/clock.h>

#include "arena.h"
#include "elevator_abi.h"
#include "jump.h"
#include "policy.h"

/* Why a queue fell back to first come, first served. */
enum dwell_fault {
	DWELL_SOUND,
	DWELL_PANICKED,
	DWELL_WRONG_ANSWER, /* unknown request, lost requests, a wait that nothing ends */
	DWELL_ENDLESS_HOLD, /* held requests back from an idle device for hold_limit */
	DWELL_STARVED, /* left a request queued for queue_limit while it dispatched others */
};

/* Counters in `iosched/stats`; the lock protects them. */
struct dwell_stats {
	u64 inserted, merged, dispatched, bypassed;
	u64 asked, held, timer, full;
	/* The rest only while iosched/timing is 1: reading the clock would cost as much as a simple policy. */
	u64 timed; /* requests dispatched meanwhile */
	u64 policy_ns, policy_ns_max;
	/* Lock hold times: bucket n counts those below 2^n us, the last one all longer ones. */
	u64 lock_hold[12];
};

/* A sector among the queued requests of one direction: the last request that starts before it, the first that does not, a link for one there. */
struct dwell_place {
	struct request *before, *after;
	struct rb_node *parent, **link;
	sector_t sector;
	int direction;
};

struct dwell_queue {
	spinlock_t lock; /* all below, but for the atomic counters and what sysfs alone writes */
	struct request_queue *q;
	const struct dwell_elevator *elevator;
	struct dwell_host *host;
	enum dwell_fault fault;
	/* The policy holds its requests, or the device is full: it is asked again after the next event. */
	bool is_waiting;
	/*
	 * The policy considers queued requests and the time alone. So completions take no lock; a request that is alone in the queue is not inserted
	 * into the policy, which is only asked to let it pass; and the lock is never taken in an interrupt.
	 */
	bool is_light;
	/* A light policy's decision to let a lone request pass changes nothing in it, so that it need not be asked. */
	bool passes_freely;
	/* The policy holds requests at times, so it is also asked with nothing queued. */
	bool may_wait;
	bool shows_processes;
	bool is_injected; /* a fault: nothing passes the policy by */
	bool is_timed; /* iosched/timing */
	u32 depth; /* iosched/depth; 0: as the device states */
	u32 stated_depth; /* what the policy assumes */
	u32 queued;
	/* Requests that have left the device after stats.dispatched entered it, and how many of them were given back. */
	atomic_t ended, given_back;
	/* The request that is alone in the queue of a light policy, and when it arrived. Neither the policy nor a list has it. */
	struct request *lone;
	u64 lone_arrived;
	u64 held_since; /* ns; 0: the device has requests, or the policy holds none */
	u32 hold_limit_ms, queue_limit_ms;
	struct list_head fifo; /* queued, in order of arrival */
	struct list_head bypass; /* go past the policy: at head, given back, passthrough */
	struct rb_root sorted[2]; /* by sector, for merges */
	struct dwell_place found; /* the latest search there; link is NULL if the tree has changed since */
	struct hrtimer timer;
	struct dwell_arena arena;
	struct dwell_jump jump;
	struct dwell_queue *interrupted; /* whose policy this one's interrupts */
	/* Results of the policy_NAME() calls: in memory, since the jump out of a panic restores registers. */
	struct dwell_next next;
	u32 result;
	u64 now; /* the latest time that the policy received */
	u64 entered, locked;
	struct dwell_stats stats;
};

/* What an elevator of this module is. */
struct dwell_elevator {
	struct elevator_type type;
	const char *spec; /* NULL: the parameter `custom` */
	/* See struct dwell_queue. */
	bool is_light, passes_freely, may_wait;
	/* The policy does not consider processes, so requests need no reference to an I/O context. */
	bool ignores_processes;
	struct elv_fs_entry *attributes;
};

struct dwell_icq {
	struct io_cq icq; /* first: the block layer allocates and frees it */
	struct dwell_queue *d;
	struct dwell_process process;
};

static inline struct dwell_icq *dwell_icq(struct io_cq *icq)
{
	return container_of(icq, struct dwell_icq, icq);
}

static inline struct dwell_queue *dwell_queue(struct request_queue *q)
{
	return q->elevator->elevator_data;
}

static inline unsigned long dwell_lock(struct dwell_queue *d)
{
	unsigned long irq = 0;

	if (d->is_light)
		spin_lock(&d->lock);
	else
		spin_lock_irqsave(&d->lock, irq);
	if (unlikely(d->is_timed))
		d->locked = local_clock();
	return irq;
}

static inline void dwell_unlock(struct dwell_queue *d, unsigned long irq)
{
	/* Timing may have begun while the lock was held. */
	if (unlikely(d->is_timed && d->locked)) {
		u64 us = (local_clock() - d->locked) >> 10;

		d->stats.lock_hold[min_t(unsigned int, fls64(us), ARRAY_SIZE(d->stats.lock_hold) - 1)]++;
	}
	if (d->is_light)
		spin_unlock(&d->lock);
	else
		spin_unlock_irqrestore(&d->lock, irq);
}

/* The time, with the lock held. */
static inline u64 dwell_now(struct dwell_queue *d)
{
	return d->now = ktime_get_ns();
}

/* Requests at the device, with the lock held; without, completions of a light policy may lower it at any time. */
static inline u32 dwell_in_flight(struct dwell_queue *d)
{
	return (u32)d->stats.dispatched - (u32)atomic_read(&d->ended);
}

void dwell_settle_lone(struct dwell_queue *d);

/* The lone request enters the lists and the policy: before any other use of them. */
static inline void dwell_settle(struct dwell_queue *d)
{
	if (d->lone)
		dwell_settle_lone(d);
}

/* Leaves the policy for good; every request is served first come, first served from now on. */
void dwell_fail(struct dwell_queue *d, enum dwell_fault fault, const char *text, int length);

/*
 * Calls into the policy, with the lock held. Each returns false if the policy has failed, before or in this call; its result is
 * then unspecified. Those with a result leave it in d->result, policy_next() in d->next.
 */
bool policy_new(struct dwell_queue *d, const char *spec, u32 nr_requests, bool is_rotational);
bool policy_free(struct dwell_queue *d);
bool policy_traits(struct dwell_queue *d);
bool policy_set_depth(struct dwell_queue *d, u32 depth);
bool policy_show_processes(struct dwell_queue *d, bool shows);
bool policy_insert(struct dwell_queue *d, u64 now, const struct dwell_submission *submission);
bool policy_merged(struct dwell_queue *d, u32 id, u64 sector, u32 sectors, u32 absorbed);
bool policy_may_merge(struct dwell_queue *d, u32 id, const struct dwell_submission *submission, bool is_front);
bool policy_may_queue(struct dwell_queue *d, struct dwell_process process, bool is_write, bool is_sync);
bool policy_pass(struct dwell_queue *d, u64 now, struct request *rq);
bool policy_next(struct dwell_queue *d, u64 now);
bool policy_completed(struct dwell_queue *d, u64 now, u32 id, u32 outcome);
bool policy_exited(struct dwell_queue *d, struct dwell_process process);
bool policy_tunable_name(struct dwell_queue *d, size_t index, char *room, size_t size);
bool policy_tunable(struct dwell_queue *d, size_t index, char *room, size_t size);
bool policy_tune(struct dwell_queue *d, size_t index, const char *text, size_t length);
bool policy_spec(struct dwell_queue *d, char *room, size_t size);
bool policy_inspect(struct dwell_queue *d, char *room, size_t size);
bool policy_set_service_times(struct dwell_queue *d, const char *text, size_t length);
bool policy_inject(struct dwell_queue *d, u32 what);

/* A queue without a device, and what the policy is in `elevator`: while the module loads. An error if there is no such policy. */
struct dwell_queue *dwell_learn(struct dwell_elevator *elevator);
void dwell_forget(struct dwell_queue *d);
const char *dwell_spec_of(const struct dwell_elevator *elevator);
bool dwell_may_inject(void);
u32 dwell_depth(const struct dwell_queue *d);
struct elv_fs_entry *dwell_make_attributes(struct dwell_elevator *elevator);
void dwell_free_attributes(struct elv_fs_entry *made);
/* Bytes of arena for a queue of nr_requests. */
size_t dwell_arena_size(unsigned long nr_requests);

/* Operations in life.c. */
#if DWELL_CORE_ALLOCATES
int dwell_init_sched(struct request_queue *q, struct elevator_queue *eq);
#else
int dwell_init_sched(struct request_queue *q, struct elevator_type *e);
#endif
void dwell_exit_sched(struct elevator_queue *e);
/* The scheduler's tags allow the depth 1 that dwell_limit_depth() sets. */
int dwell_init_hctx(struct blk_mq_hw_ctx *hctx, unsigned int index);
#if DWELL_DEPTH_BY_QUEUE
void dwell_depth_updated(struct request_queue *q);
#else
void dwell_depth_updated(struct blk_mq_hw_ctx *hctx);
#endif

/* A wait of the policy is over. */
enum hrtimer_restart dwell_timer(struct hrtimer *timer);

extern const struct elevator_mq_ops dwell_ops;
extern const struct elevator_mq_ops dwell_ops_limiting;

#endif
