/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The functions of the Rust object (kernel/object/src/lib.rs) and of the C side that it calls. policy.c alone calls the former;
 * the rest of the module calls policy_NAME(queue, ...) of queue.h with the queue's lock held and interrupts off.
 */
#ifndef DWELL_POLICY_H
#define DWELL_POLICY_H

#include <linux/types.h>

struct dwell_host;

struct dwell_process {
	u32 task, group, context; /* task 0: unknown */
};

enum { DWELL_READ, DWELL_WRITE, DWELL_DISCARD };
enum { DWELL_SYNC = 1, DWELL_META = 2, DWELL_AHEAD = 4, DWELL_FUA = 8 };

struct dwell_submission {
	void *rq;
	u64 sector;
	u32 sectors;
	u8 op, flags, class, level;
	struct dwell_process process;
};

enum { DWELL_IDLE, DWELL_DISPATCH, DWELL_HOLD, DWELL_HOLD_FOR_COMPLETION, DWELL_FAULT };

struct dwell_next {
	void *rq;
	u64 until; /* CLOCK_MONOTONIC, ns */
	const char *reason; /* not terminated */
	u32 reason_length;
	u32 id;
	u32 what;
};

enum { DWELL_DONE, DWELL_FAILED, DWELL_GIVEN_BACK };
enum { DWELL_NOT_NOW, DWELL_BY_LIMIT, DWELL_BEYOND_LIMIT };

#define DWELL_NO_ID U32_MAX

/* What a policy is: struct dwell_queue has the meanings. */
enum { DWELL_LIGHT = 1, DWELL_IGNORES_PROCESSES = 2, DWELL_MAY_WAIT = 4, DWELL_PASSES_FREELY = 8 };

struct dwell_host *dwell_new(const char *spec, size_t length, u32 depth, u32 nr_requests, bool rotational);
void dwell_free(struct dwell_host *host);
u32 dwell_traits(const struct dwell_host *host);
void dwell_set_depth(struct dwell_host *host, u32 depth);
void dwell_show_processes(struct dwell_host *host, bool shows);
u32 dwell_insert(struct dwell_host *host, u64 now, const struct dwell_submission *submission);
void dwell_merged(struct dwell_host *host, u64 now, u32 id, u64 sector, u32 sectors, u32 absorbed);
bool dwell_may_merge(struct dwell_host *host, u64 now, u32 id, const struct dwell_submission *submission, bool front);
u32 dwell_may_queue(struct dwell_host *host, u64 now, struct dwell_process process, bool write, bool sync);
void dwell_pass(struct dwell_host *host, u64 now, u64 arrived, u64 sector, u32 sectors, bool write, struct dwell_next *next);
void dwell_next(struct dwell_host *host, u64 now, struct dwell_next *next);
void dwell_completed(struct dwell_host *host, u64 now, u32 id, u32 outcome);
void dwell_exited(struct dwell_host *host, u64 now, struct dwell_process process);
size_t dwell_tunable_name(const struct dwell_host *host, size_t index, char *room, size_t size);
size_t dwell_tunable(const struct dwell_host *host, size_t index, char *room, size_t size);
bool dwell_tune(struct dwell_host *host, size_t index, const char *text, size_t length);
size_t dwell_spec(const struct dwell_host *host, char *room, size_t size);
size_t dwell_inspect(const struct dwell_host *host, u64 now, char *room, size_t size);
bool dwell_set_service_times(struct dwell_host *host, u64 now, const char *text, size_t length);
void dwell_inject(struct dwell_host *host, u32 what);

/* What the object needs. */
void *dwellc_alloc(size_t size, size_t align);
void dwellc_free(void *at, size_t size, size_t align);
void dwellc_panicked(const char *text, size_t length) __noreturn;
void dwellc_fault(const char *text, size_t length);

#endif
