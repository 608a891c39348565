/* SPDX-License-Identifier: GPL-2.0-only */
/* A request: what the queue notes in it, which ones merge, and what the policy receives of it. */
#ifndef DWELL_REQUEST_H
#define DWELL_REQUEST_H

#include <linux/bio.h>
#include <linux/ioprio.h>
#include <linux/sched.h>

#include "queue.h"

/*
 * rq->elv.priv[0]: 0 for a request that the policy does not have, else its id + 1, with DISPATCHED; DISPATCHED alone if the policy is light;
 * or GIVEN_BACK alone.
 * rq->elv.priv[1]: thread group << 32 | task of the submitter.
 */
#define DISPATCHED BIT_ULL(32)
#define GIVEN_BACK BIT_ULL(33)

#ifdef RQF_ELVPRIV
/* Before 6.5 flushes come here, too, and their data occupies the elevator's part of a request. */
static inline bool is_ours(struct request *rq)
{
	return rq->rq_flags & RQF_ELVPRIV;
}
#else
static inline bool is_ours(struct request *rq)
{
	return true;
}
#endif

static inline u64 state(struct request *rq)
{
	return is_ours(rq) ? (u64)(unsigned long)rq->elv.priv[0] : 0;
}

static inline void set_state(struct request *rq, u64 to)
{
	if (is_ours(rq))
		rq->elv.priv[0] = (void *)(unsigned long)to;
}

static inline u32 id_of(struct request *rq)
{
	return (u32)state(rq) - 1;
}

static inline sector_t end_of(struct request *rq)
{
	return blk_rq_pos(rq) + blk_rq_sectors(rq);
}

/* As rq_mergeable() in block/blk.h, for the operations that arrive here. */
static inline bool is_mergeable(struct request *rq)
{
	return req_op(rq) != REQ_OP_WRITE_ZEROES && !(rq->cmd_flags & REQ_NOMERGE_FLAGS) &&
	       !(rq->rq_flags & RQF_NOMERGE_FLAGS);
}

/* As blk_discard_mergable() in block/blk.h. */
static inline bool is_discard_mergeable(struct request *rq)
{
	return req_op(rq) == REQ_OP_DISCARD && queue_max_discard_segments(rq->q) > 1;
}

static inline int op_of(blk_opf_t opf)
{
	switch (opf & REQ_OP_MASK) {
	case REQ_OP_READ:
		return DWELL_READ;
	case REQ_OP_WRITE:
		return DWELL_WRITE;
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
	case REQ_OP_WRITE_ZEROES:
		return DWELL_DISCARD;
	default:
		return -1;
	}
}

static inline u8 flags_of(blk_opf_t opf)
{
	return (opf & REQ_SYNC ? DWELL_SYNC : 0) | (opf & REQ_META ? DWELL_META : 0) |
	       (opf & REQ_RAHEAD ? DWELL_AHEAD : 0) | (opf & REQ_FUA ? DWELL_FUA : 0);
}

static inline void describe(struct dwell_submission *to, blk_opf_t opf, u16 ioprio, sector_t sector, u32 sectors)
{
	int class = IOPRIO_PRIO_CLASS(ioprio);

	*to = (struct dwell_submission){
		.sector = sector,
		.sectors = sectors,
		.op = max(op_of(opf), 0),
		.flags = flags_of(opf),
		.class = class,
		.level = class ? IOPRIO_PRIO_DATA(ioprio) & 7 : IOPRIO_BE_NORM,
	};
}

/* The submitter of the running task's I/O: its I/O context has a number of its own. */
static inline struct dwell_process current_process(struct io_cq *icq)
{
	return (struct dwell_process){
		.task = current->pid,
		.group = current->tgid,
		.context = icq ? dwell_icq(icq)->process.context : current->pid,
	};
}

static inline struct dwell_process submitter(struct request *rq)
{
	u64 who = (u64)(unsigned long)rq->elv.priv[1];

	return (struct dwell_process){
		.task = (u32)who,
		.group = who >> 32,
		.context = rq->elv.icq ? dwell_icq(rq->elv.icq)->process.context : (u32)who,
	};
}

#endif
