// SPDX-License-Identifier: GPL-2.0-only
/* Calls into the policy: its memory, and the ways out of one that fails. */
#include <linux/percpu.h>
#include <linux/printk.h>

#include "queue.h"

/* The queue whose policy runs on this processor. */
static DEFINE_PER_CPU(struct dwell_queue *, current_queue);

/*
 * Preemption is off, so that a panic finds its queue on this processor also under PREEMPT_RT. A light policy may be interrupted by a completion of
 * another queue.
 */
static inline void enter(struct dwell_queue *d)
{
	preempt_disable();
	d->interrupted = this_cpu_read(current_queue);
	this_cpu_write(current_queue, d);
	if (unlikely(d->is_timed))
		d->entered = local_clock();
}

static inline void leave(struct dwell_queue *d)
{
	this_cpu_write(current_queue, d->interrupted);
	preempt_enable();
	if (unlikely(d->is_timed)) {
		u64 spent = local_clock() - d->entered;

		d->stats.policy_ns += spent;
		d->stats.policy_ns_max = max(d->stats.policy_ns_max, spent);
	}
}

void dwell_fail(struct dwell_queue *d, enum dwell_fault fault, const char *text, int length)
{
	if (d->fault != DWELL_SOUND)
		return;
	d->fault = fault;
	pr_err("dwell: %s: %s: the policy %.*s; serving first come, first served until another scheduler is chosen\n",
	       d->q && d->q->disk ? d->q->disk->disk_name : "?", d->elevator->type.elevator_name, length, text);
}

void *dwellc_alloc(size_t size, size_t align)
{
	return dwell_arena_alloc(&this_cpu_read(current_queue)->arena, size, align);
}

void dwellc_free(void *at, size_t size, size_t align)
{
	dwell_arena_free(&this_cpu_read(current_queue)->arena, at, size, align);
}

void dwellc_panicked(const char *text, size_t length)
{
	struct dwell_queue *d = this_cpu_read(current_queue);
	static const char panicked[] = "panicked: ";
	char message[160];
	int n;

	n = scnprintf(message, sizeof(message), "%s%.*s", panicked, (int)length, text);
	dwell_fail(d, DWELL_PANICKED, message, n);
	dwell_longjmp(&d->jump);
	BUG();
}

void dwellc_fault(const char *text, size_t length)
{
	dwell_fail(this_cpu_read(current_queue), DWELL_WRONG_ANSWER, text, length);
}

/*
 * A function that runs `call` in the policy, and nothing else: after a panic dwell_setjmp() returns a second time, with the registers
 * of the first. `call` assigns to memory only.
 */
#define POLICY(name, parameters, call)					\
noinline bool policy_##name parameters					\
{									\
	if (likely(d->fault == DWELL_SOUND)) {				\
		enter(d);						\
		if (!dwell_setjmp(&d->jump))				\
			call;						\
		leave(d);						\
	}								\
	return d->fault == DWELL_SOUND;					\
}

POLICY(new, (struct dwell_queue *d, const char *spec, u32 nr_requests, bool is_rotational),
	d->host = dwell_new(spec, strlen(spec), d->stated_depth, nr_requests, is_rotational))
POLICY(free, (struct dwell_queue *d), dwell_free(d->host))
POLICY(traits, (struct dwell_queue *d), d->result = dwell_traits(d->host))
POLICY(set_depth, (struct dwell_queue *d, u32 depth), dwell_set_depth(d->host, depth))
POLICY(show_processes, (struct dwell_queue *d, bool shows), dwell_show_processes(d->host, shows))
POLICY(insert, (struct dwell_queue *d, u64 now, const struct dwell_submission *submission),
	d->result = dwell_insert(d->host, now, submission))
POLICY(merged, (struct dwell_queue *d, u32 id, u64 sector, u32 sectors, u32 absorbed),
	dwell_merged(d->host, dwell_now(d), id, sector, sectors, absorbed))
POLICY(may_merge, (struct dwell_queue *d, u32 id, const struct dwell_submission *submission, bool is_front),
	d->result = dwell_may_merge(d->host, dwell_now(d), id, submission, is_front))
POLICY(may_queue, (struct dwell_queue *d, struct dwell_process process, bool is_write, bool is_sync),
	d->result = dwell_may_queue(d->host, dwell_now(d), process, is_write, is_sync))
POLICY(pass, (struct dwell_queue *d, u64 now, struct request *rq),
	dwell_pass(d->host, now, d->lone_arrived, blk_rq_pos(rq), blk_rq_sectors(rq), rq_data_dir(rq) == WRITE, &d->next))
POLICY(next, (struct dwell_queue *d, u64 now), dwell_next(d->host, now, &d->next))
POLICY(completed, (struct dwell_queue *d, u64 now, u32 id, u32 outcome), dwell_completed(d->host, now, id, outcome))
POLICY(exited, (struct dwell_queue *d, struct dwell_process process), dwell_exited(d->host, dwell_now(d), process))
POLICY(tunable_name, (struct dwell_queue *d, size_t index, char *room, size_t size),
	d->result = dwell_tunable_name(d->host, index, room, size))
POLICY(tunable, (struct dwell_queue *d, size_t index, char *room, size_t size),
	d->result = dwell_tunable(d->host, index, room, size))
POLICY(tune, (struct dwell_queue *d, size_t index, const char *text, size_t length),
	d->result = dwell_tune(d->host, index, text, length))
POLICY(spec, (struct dwell_queue *d, char *room, size_t size), d->result = dwell_spec(d->host, room, size))
POLICY(inspect, (struct dwell_queue *d, char *room, size_t size),
	d->result = dwell_inspect(d->host, dwell_now(d), room, size))
POLICY(set_service_times, (struct dwell_queue *d, const char *text, size_t length),
	d->result = dwell_set_service_times(d->host, dwell_now(d), text, length))
POLICY(inject, (struct dwell_queue *d, u32 what), dwell_inject(d->host, what))
