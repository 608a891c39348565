// SPDX-License-Identifier: GPL-2.0-only
//
// Reports the submissions to a block device and their completions, above merging and above every scheduler.
//
// Arrivals are those of bios, not of requests. block_bio_queue fires for every submission, also for those that are merged
// afterwards, in the submitter's own context, and under `none` too, because no scheduler is involved. A bio completes
// with the request that carried it (block_rq_complete), or by itself where the driver has no requests (dm, md:
// block_bio_complete). Of a bio that was split, the last part counts. Where the device has no forced unit access, the
// kernel flushes after such a write: then the completion of the write counts.
//
// Built by build.sh; needs clang and nothing else.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define inline inline __attribute__((always_inline))

// Only the fields that are used here; their offsets are resolved when the program is loaded (CO-RE).
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gendisk;
struct block_device {
	u32 bd_dev;
	struct gendisk *bd_disk;
};
struct gendisk {
	struct block_device *part0;
};
struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
};
struct bio {
	struct bio *bi_next;
	struct block_device *bi_bdev;
	u32 bi_opf;
	u16 bi_ioprio;
	u8 bi_status;
	struct bvec_iter bi_iter;
};
struct request {
	struct bio *bio;
};
struct io_context {
	u16 ioprio;
};
struct task_struct {
	int pid;
	int tgid;
	struct io_context *io_context;
};
#pragma clang attribute pop

// Only their names count.
enum req_flag_bits { __REQ_SYNC = 1, __REQ_META, __REQ_FUA, __REQ_PREFLUSH, __REQ_RAHEAD };
#define BIT_OF(name) __builtin_preserve_enum_value(*(enum req_flag_bits *)name, 1)
#define HAS(opf, name) (((opf) >> BIT_OF(name)) & 1)

// Helpers by their numbers, which are the kernel's ABI (include/uapi/linux/bpf.h).
static void *(*const map_lookup)(void *, const void *) = (void *)1;
static long (*const map_update)(void *, const void *, const void *, u64) = (void *)2;
static long (*const map_delete)(void *, const void *) = (void *)3;
static u64 (*const ktime_get_ns)(void) = (void *)5;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static long (*const current_comm)(void *, u32) = (void *)16;
static void *(*const ringbuf_reserve)(void *, u64, u64) = (void *)131;
static void (*const ringbuf_submit)(void *, u64) = (void *)132;
static struct task_struct *(*const current_task)(void) = (void *)158;

#define NO_WAKEUP 1
#define FORCE_WAKEUP 2

// Set before loading.
const volatile u32 device;	 // major << 20 | minor of the whole disk
const volatile u32 completions;	 // report them
const volatile u32 exits;	 // report the end of tasks that were seen
const volatile u32 period_taken; // submissions that a processor reports in a period; 0: all
const volatile u32 wake_every;	 // wake the reader after so many records of a processor; 0: never

#define PERIOD_SHIFT 27 // 134 ms
#define PLACE_BITS 14	// more places than submissions are under way, so that few share one
#define BIOS_MAX 2048	// of a request: as many as it has segments at most under Linux's SCSI (SG_MAX_SEGMENTS)

enum kind { COMPLETED = 1, EXITED = 2 };
enum flag { SYNC = 1, META = 2, FUA = 4, PREFLUSH = 8, AHEAD = 16 };

// The same in src/bpf/record.rs.
struct arrival {
	u64 at;
	u64 bio;
	u64 sector;
	u32 bytes;
	u32 task;
	u32 group;
	u16 priority;
	u8 op;
	u8 flags;
	u8 unused[8];
	char comm[16];
};

// Of a submission that came back, or of a task that ended.
struct end {
	u64 at;
	u64 whose; // the bio, or group << 32 | task
	u32 kind;
	u32 failed;
};

struct account {
	u64 arrived;
	u64 skipped;
	u64 lost;
	u64 ends_lost;
	u64 period;
	u32 taken;
	u32 quiet;
};

#define UINT(name, value) int(*name)[value]
struct {
	UINT(type, 27); // ring buffer
	UINT(max_entries, 1 << 22);
} records SEC(".maps");

struct {
	UINT(type, 6); // array, one for each processor
	UINT(max_entries, 1);
	u32 *key;
	struct account *value;
} accounts SEC(".maps");

struct {
	UINT(type, 9); // hash that forgets the least recently used
	UINT(max_entries, 1 << 12);
	u32 *key;
	u8 *value;
} tasks SEC(".maps");

// The submissions that were left out, by the places of their addresses, so that their ends are left out, too. It
// forgets: of two at one place the earlier one's end is reported, which means nothing to the reader. What was reported
// is never taken for left out.
volatile u64 left_out[1 << PLACE_BITS];

// Not inline, as what is verified by itself may take an address for a number.
__attribute__((noinline)) u32 place(const u64 *bio)
{
	return bio ? *bio * 0x9E3779B97F4A7C15 >> (64 - PLACE_BITS) : 0;
}

static inline volatile u64 *place_of(const u64 *bio)
{
	return &left_out[place(bio) & ((1 << PLACE_BITS) - 1)];
}

static inline int is_ours(struct bio *bio)
{
	return bio->bi_bdev->bd_disk->part0->bd_dev == device;
}

static inline struct account *account(void)
{
	u32 first = 0;
	return map_lookup(&accounts, &first);
}

// A burst from the beginning of each period, then nothing until the next: what is seen stays in sequence.
static inline int is_taken(struct account *own, u64 now)
{
	if (!period_taken)
		return 1;
	u64 period = now >> PERIOD_SHIFT;
	if (own->period != period) {
		own->period = period;
		own->taken = 0;
	}
	if (own->taken >= period_taken)
		return 0;
	own->taken++;
	return 1;
}

// Also of one that is taken, as an earlier one of that address may be there.
static inline void note(struct bio *bio, int is_left_out)
{
	if (!completions || !period_taken)
		return;
	u64 address = (u64)bio;
	volatile u64 *noted = place_of(&address);
	if (is_left_out)
		*noted = address;
	else if (*noted == address)
		*noted = 0;
}

static inline void submit(void *record, struct account *own)
{
	u64 how = NO_WAKEUP;
	if (++own->quiet >= wake_every) {
		own->quiet = 0;
		how = FORCE_WAKEUP;
	}
	ringbuf_submit(record, how);
}

// Not inline, so that it is verified once and not for each of the bios that a request may have.
__attribute__((noinline)) int report_end(const struct end *end)
{
	struct account *own = account();
	if (!own || !end)
		return 0;
	if (end->kind == COMPLETED && period_taken && *place_of(&end->whose) == end->whose)
		return 0;
	struct end *record = ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		own->ends_lost++;
		return 0;
	}
	*record = *end;
	submit(record, own);
	return 0;
}

static inline u16 priority(struct bio *bio)
{
	if (bio->bi_ioprio)
		return bio->bi_ioprio;
	return current_task()->io_context->ioprio;
}

static inline void fill(struct arrival *record, struct bio *bio, u64 now)
{
	u32 opf = bio->bi_opf;
	u64 ids = current_pid_tgid();
	record->at = now;
	record->bio = (u64)bio;
	record->sector = bio->bi_iter.bi_sector;
	record->bytes = bio->bi_iter.bi_size;
	record->task = ids;
	record->group = ids >> 32;
	record->priority = priority(bio);
	record->op = opf;
	record->flags = HAS(opf, __REQ_SYNC) * SYNC | HAS(opf, __REQ_META) * META | HAS(opf, __REQ_FUA) * FUA |
			HAS(opf, __REQ_PREFLUSH) * PREFLUSH | HAS(opf, __REQ_RAHEAD) * AHEAD;
	current_comm(record->comm, sizeof(record->comm));
}

SEC("tp_btf/block_bio_queue")
int bio_queue(u64 *arguments)
{
	struct bio *bio = (void *)arguments[0];
	if (!is_ours(bio))
		return 0;
	struct account *own = account();
	if (!own)
		return 0;
	own->arrived++;
	u64 now = ktime_get_ns();
	int taken = is_taken(own, now);
	note(bio, !taken);
	if (!taken) {
		own->skipped++;
		return 0;
	}
	struct arrival *record = ringbuf_reserve(&records, sizeof(*record), 0);
	if (!record) {
		own->lost++;
		return 0;
	}
	fill(record, bio, now);
	if (exits) {
		u32 task = record->task;
		u8 seen = 1;
		if (!map_lookup(&tasks, &task))
			map_update(&tasks, &task, &seen, 0);
	}
	submit(record, own);
	return 0;
}

SEC("tp_btf/block_bio_complete")
int bio_complete(u64 *arguments)
{
	struct bio *bio = (void *)arguments[1];
	if (!is_ours(bio))
		return 0;
	struct end end = { ktime_get_ns(), (u64)bio, COMPLETED, bio->bi_status != 0 };
	return report_end(&end);
}

SEC("tp_btf/block_rq_complete")
int request_complete(u64 *arguments)
{
	struct bio *bio = ((struct request *)arguments[0])->bio;
	u32 left = arguments[2];
	if (!bio || !is_ours(bio))
		return 0;
	struct end end = { ktime_get_ns(), 0, COMPLETED, (u8)arguments[1] != 0 };
	for (int i = 0; i < BIOS_MAX && bio; i++) {
		u32 size = bio->bi_iter.bi_size;
		if (size > left)
			return 0;
		left -= size;
		end.whose = (u64)bio;
		report_end(&end);
		bio = bio->bi_next;
	}
	// Of discards there may be more; those merged are mostly alike.
	struct account *own = account();
	if (own && bio)
		own->ends_lost += left / bio->bi_iter.bi_size;
	return 0;
}

SEC("tp_btf/sched_process_exit")
int process_exit(u64 *arguments)
{
	struct task_struct *task = (void *)arguments[0];
	u32 pid = task->pid;
	if (map_delete(&tasks, &pid))
		return 0;
	struct end end = { ktime_get_ns(), (u64)task->tgid << 32 | pid, EXITED, 0 };
	return report_end(&end);
}

SEC("license") char licence[] = "GPL";
