/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every decision with its reason: /sys/kernel/tracing/events/dwell/dwell_decision. Off, it costs a branch that is not taken.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM dwell

#if !defined(DWELL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define DWELL_TRACE_H

#include <linux/tracepoint.h>
#include <linux/blk-mq.h>

#define DWELL_REASON_MAX 48

TRACE_EVENT(dwell_decision,
	TP_PROTO(dev_t dev, u32 what, struct request *rq, u64 until, const char *reason, u32 length),
	TP_ARGS(dev, what, rq, until, reason, length),
	TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u32, what)
		__field(u64, sector)
		__field(u32, sectors)
		__field(u64, until)
		__array(char, reason, DWELL_REASON_MAX)
	),
	TP_fast_assign(
		u32 n = min_t(u32, length, DWELL_REASON_MAX - 1);

		__entry->dev = dev;
		__entry->what = what;
		__entry->sector = rq ? blk_rq_pos(rq) : 0;
		__entry->sectors = rq ? blk_rq_sectors(rq) : 0;
		__entry->until = until;
		memcpy(__entry->reason, reason, n);
		__entry->reason[n] = 0;
	),
	TP_printk("%d,%d %s %llu + %u until=%llu reason=\"%s\"", MAJOR(__entry->dev), MINOR(__entry->dev),
		  __print_symbolic(__entry->what, { 1, "dispatch" }, { 2, "hold" }, { 3, "hold-for-completion" }, { 4, "fallback" }),
		  __entry->sector, __entry->sectors, __entry->until, __entry->reason)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
