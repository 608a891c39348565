// SPDX-License-Identifier: GPL-2.0-only
/* /sys/block/DEVICE/queue/iosched/: a file for each tunable of the policy, and those that every elevator of this module has. */
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/sysfs.h>

#include "queue.h"

/* ---- tunables: the block layer does not pass the attribute, so each index needs functions of its own ---- */

static ssize_t show_tunable(struct elevator_queue *e, char *page, size_t index)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq = dwell_lock(d);
	ssize_t length;

	d->result = 0;
	policy_tunable(d, index, page, PAGE_SIZE - 1);
	length = d->result;
	dwell_unlock(d, irq);
	return length;
}

static ssize_t store_tunable(struct elevator_queue *e, const char *page, size_t count, size_t index)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq = dwell_lock(d);
	bool is_set;

	dwell_settle(d);
	d->result = false;
	policy_tune(d, index, page, count);
	is_set = d->result;
	dwell_unlock(d, irq);
	return is_set ? count : -EINVAL;
}

#define TUNABLE(n)									\
static ssize_t show_##n(struct elevator_queue *e, char *page)				\
{											\
	return show_tunable(e, page, n);						\
}											\
static ssize_t store_##n(struct elevator_queue *e, const char *page, size_t count)	\
{											\
	return store_tunable(e, page, count, n);					\
}
#define EACH_TUNABLE(f)									\
	f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11) f(12) f(13) f(14) f(15)	\
	f(16) f(17) f(18) f(19) f(20) f(21) f(22) f(23) f(24) f(25) f(26) f(27) f(28) f(29) f(30) f(31)
EACH_TUNABLE(TUNABLE)

#define FUNCTIONS(n) { .show = show_##n, .store = store_##n },
static const struct elv_fs_entry tunable_functions[] = { EACH_TUNABLE(FUNCTIONS) };

/* ---- what every elevator has ---- */

static ssize_t spec_show(struct elevator_queue *e, char *page)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq = dwell_lock(d);
	ssize_t length;

	d->result = 0;
	policy_spec(d, page, PAGE_SIZE - 1);
	length = d->result;
	dwell_unlock(d, irq);
	return length;
}

static ssize_t inspect_show(struct elevator_queue *e, char *page)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq = dwell_lock(d);
	ssize_t length;

	dwell_settle(d);
	d->result = 0;
	policy_inspect(d, page, PAGE_SIZE - 1);
	length = d->result;
	dwell_unlock(d, irq);
	return length;
}

static const char *const faults[] = {
	[DWELL_SOUND] = "none", [DWELL_PANICKED] = "panicked", [DWELL_WRONG_ANSWER] = "wrong-answer",
	[DWELL_ENDLESS_HOLD] = "endless-hold", [DWELL_STARVED] = "starved-a-request",
};

static ssize_t stats_show(struct elevator_queue *e, char *page)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq = dwell_lock(d);
	struct dwell_stats s = d->stats;
	const struct dwell_arena a = d->arena;
	/* A request of a light policy is counted in this order meanwhile. */
	u32 given_back = atomic_read(&d->given_back), in_flight = dwell_in_flight(d);
	u32 queued = d->queued, depth = dwell_depth(d);
	enum dwell_fault fault = d->fault;
	ssize_t n;
	int i;

	dwell_unlock(d, irq);
	n = sysfs_emit(page,
		       "inserted %llu\nmerged %llu\ndispatched %llu\ncompleted %llu\ngiven_back %u\nbypassed %llu\n"
		       "asked %llu\nheld %llu\ntimer %llu\nfull %llu\nqueued %u\nin_flight %u\ndepth %u\nfault %s\n"
		       "timed %llu\npolicy_ns %llu\npolicy_ns_max %llu\n"
		       "arena_bytes %zu\narena_used %zu\narena_peak %zu\narena_extra %llu\narena_refused %llu\nlock_hold_us",
		       s.inserted, s.merged, s.dispatched, s.dispatched - in_flight - given_back, given_back, s.bypassed, s.asked, s.held,
		       s.timer, s.full, queued, in_flight, depth, faults[fault], s.timed, s.policy_ns, s.policy_ns_max,
		       a.capacity, a.used, a.peak, a.extra, a.refused);
	for (i = 0; i < ARRAY_SIZE(s.lock_hold); i++)
		n += sysfs_emit_at(page, n, " <%u:%llu", 1U << i, s.lock_hold[i]);
	return n + sysfs_emit_at(page, n, "\n");
}

static ssize_t depth_show(struct elevator_queue *e, char *page)
{
	struct dwell_queue *d = e->elevator_data;

	return sysfs_emit(page, "%u\n", dwell_depth(d));
}

static ssize_t depth_store(struct elevator_queue *e, const char *page, size_t count)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq;
	u32 depth;

	if (kstrtou32(page, 0, &depth))
		return -EINVAL;
	irq = dwell_lock(d);
	WRITE_ONCE(d->depth, depth);
	dwell_unlock(d, irq);
	return count;
}

static ssize_t shown_show(struct elevator_queue *e, char *page)
{
	struct dwell_queue *d = e->elevator_data;

	return sysfs_emit(page, "%d\n", READ_ONCE(d->shows_processes));
}

static ssize_t shown_store(struct elevator_queue *e, const char *page, size_t count)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq;
	bool shows;

	if (kstrtobool(page, &shows))
		return -EINVAL;
	irq = dwell_lock(d);
	d->shows_processes = shows;
	policy_show_processes(d, shows);
	dwell_unlock(d, irq);
	return count;
}

static ssize_t timing_show(struct elevator_queue *e, char *page)
{
	struct dwell_queue *d = e->elevator_data;

	return sysfs_emit(page, "%d\n", READ_ONCE(d->is_timed));
}

static ssize_t timing_store(struct elevator_queue *e, const char *page, size_t count)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq;
	bool is_timed;

	if (kstrtobool(page, &is_timed))
		return -EINVAL;
	irq = dwell_lock(d);
	d->locked = 0;
	d->is_timed = is_timed;
	dwell_unlock(d, irq);
	return count;
}

static ssize_t service_times_store(struct elevator_queue *e, const char *page, size_t count)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq = dwell_lock(d);
	bool is_set;

	dwell_settle(d);
	d->result = false;
	policy_set_service_times(d, page, count);
	is_set = d->result;
	dwell_unlock(d, irq);
	return is_set ? count : -EINVAL;
}

static ssize_t show_limit(u32 limit, char *page)
{
	return sysfs_emit(page, "%u\n", limit);
}

static ssize_t store_limit(u32 *limit, const char *page, size_t count)
{
	u32 ms;

	if (kstrtou32(page, 0, &ms) || !ms || ms > 3600000)
		return -EINVAL;
	WRITE_ONCE(*limit, ms);
	return count;
}

#define LIMIT(name)											\
static ssize_t name##_show(struct elevator_queue *e, char *page)					\
{													\
	return show_limit(((struct dwell_queue *)e->elevator_data)->name, page);			\
}													\
static ssize_t name##_store(struct elevator_queue *e, const char *page, size_t count)			\
{													\
	return store_limit(&((struct dwell_queue *)e->elevator_data)->name, page, count);		\
}
LIMIT(hold_limit_ms)
LIMIT(queue_limit_ms)

/* Fault injection, for tests: see kernel/README.md. */
static ssize_t inject_store(struct elevator_queue *e, const char *page, size_t count)
{
	struct dwell_queue *d = e->elevator_data;
	unsigned long irq;
	u32 what;

	if (!dwell_may_inject())
		return -EPERM;
	if (kstrtou32(page, 0, &what))
		return -EINVAL;
	irq = dwell_lock(d);
	dwell_settle(d);
	d->is_injected = true;
	if (what == 0)
		d->arena.is_refusing = true;
	else
		policy_inject(d, what);
	dwell_unlock(d, irq);
	return count;
}

static const struct elv_fs_entry common[] = {
	__ATTR(spec, 0444, spec_show, NULL),
	__ATTR(inspect, 0444, inspect_show, NULL),
	__ATTR(stats, 0444, stats_show, NULL),
	__ATTR(depth, 0644, depth_show, depth_store),
	__ATTR(shown, 0644, shown_show, shown_store),
	__ATTR(timing, 0644, timing_show, timing_store),
	__ATTR(service_times, 0200, NULL, service_times_store),
	__ATTR(hold_limit_ms, 0644, hold_limit_ms_show, hold_limit_ms_store),
	__ATTR(queue_limit_ms, 0644, queue_limit_ms_show, queue_limit_ms_store),
	__ATTR(inject, 0200, NULL, inject_store),
};

/* The attributes of an elevator: those above, then one for each tunable of its policy. */
struct elv_fs_entry *dwell_make_attributes(struct dwell_elevator *elevator)
{
	struct dwell_queue *d = dwell_learn(elevator);
	struct elv_fs_entry *made;
	char name[64];
	size_t i;

	if (IS_ERR(d))
		return ERR_CAST(d);
	made = kcalloc(ARRAY_SIZE(common) + ARRAY_SIZE(tunable_functions) + 1, sizeof(*made), GFP_KERNEL);
	if (!made)
		goto out;
	memcpy(made, common, sizeof(common));
	/* Copies are not static data: lockdep wants a key for each. */
	for (i = 0; i < ARRAY_SIZE(common); i++)
		sysfs_attr_init(&made[i].attr);
	for (i = 0; i < ARRAY_SIZE(tunable_functions); i++) {
		struct elv_fs_entry *to = &made[ARRAY_SIZE(common) + i];

		if (!policy_tunable_name(d, i, name, sizeof(name)) || !d->result)
			break;
		*to = tunable_functions[i];
		sysfs_attr_init(&to->attr);
		to->attr.mode = 0644;
		to->attr.name = kstrndup(name, d->result, GFP_KERNEL);
		if (!to->attr.name) {
			dwell_free_attributes(made);
			made = NULL;
			goto out;
		}
	}
out:
	dwell_forget(d);
	return made ?: ERR_PTR(-ENOMEM);
}

void dwell_free_attributes(struct elv_fs_entry *made)
{
	struct elv_fs_entry *tunable;

	if (IS_ERR_OR_NULL(made))
		return;
	for (tunable = made + ARRAY_SIZE(common); tunable->attr.name; tunable++)
		kfree(tunable->attr.name);
	kfree(made);
}
