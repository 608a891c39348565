/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the module's C files use of the kernel, in user space: enough to measure them, no more. A thread stands for a processor. Time is
 * the harness's; locks and lists cost what they cost in the kernel. Trees are not balanced, since sectors arrive at random.
 */
#ifndef DWELL_NATIVE_KERNEL_H
#define DWELL_NATIVE_KERNEL_H

#ifdef __ASSEMBLER__
#define SYM_FUNC_START(name) .globl name; name:
#define SYM_FUNC_END(name)
#define STACK_FRAME_NON_STANDARD .globl
#define RET ret
#else

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef u64 sector_t;
typedef long long ktime_t;
typedef u32 blk_opf_t;
typedef u32 blk_mq_req_flags_t;
typedef unsigned short umode_t;

#define KERNEL_VERSION(a, b, c) (((a) << 16) + ((b) << 8) + (c))
#define LINUX_VERSION_CODE KERNEL_VERSION(6, 12, 0)
#define __bitwise
#define __force
#define __noreturn __attribute__((noreturn))
#define __aligned(n) __attribute__((aligned(n)))
#define noinline __attribute__((noinline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define U32_MAX UINT32_MAX
#define SZ_512 512
#define NUMA_NO_NODE (-1)
#define SZ_1K 1024
#define SZ_256K (256 << 10)
#define PAGE_SIZE 4096
#define NSEC_PER_MSEC 1000000L
#define BIT(n) (1ul << (n))
#define BIT_ULL(n) (1ull << (n))
#define ARRAY_SIZE(a) (sizeof(a) / sizeof(*(a)))
#define READ_ONCE(x) (*(volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, to) (*(volatile __typeof__(x) *)&(x) = (to))
#define WARN_ON_ONCE(x) ({ if (x) { fprintf(stderr, "%s\n", #x); exit(1); } 0; })
#define BUG() abort()
#define panic(...) (fprintf(stderr, __VA_ARGS__), exit(1))
#define IS_ENABLED(x) 0
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define max_t(t, a, b) max((t)(a), (t)(b))
#define min_t(t, a, b) min((t)(a), (t)(b))
#define container_of(at, type, member) ((type *)((char *)(at) - offsetof(type, member)))
#define ENOMEM 12
#define EINVAL 22
#define ERR_PTR(e) ((void *)(long)(e))
#define PTR_ERR(p) ((long)(p))
#define IS_ERR(p) ((unsigned long)(p) >= (unsigned long)-4095)
#define PTR_ALIGN(p, a) ((__typeof__(p))(((uintptr_t)(p) + (a) - 1) & ~((uintptr_t)(a) - 1)))
#define pr_err(...) fprintf(stderr, __VA_ARGS__)
#define scnprintf snprintf
#define fls64(x) ((x) ? 64 - __builtin_clzll(x) : 0)
#define order_base_2(n) ((n) > 1 ? 64 - __builtin_clzll((n) - 1) : 0)
#define roundup_pow_of_two(n) (1ul << order_base_2(n))
#define DEFINE_PER_CPU(type, name) __thread type name
#define this_cpu_read(x) READ_ONCE(x)
#define this_cpu_write(x, to) WRITE_ONCE(x, to)
#define preempt_disable() __asm__ volatile("" ::: "memory")
#define preempt_enable() __asm__ volatile("" ::: "memory")

#define GFP_KERNEL 0
#define memalloc_noio_save() 0
#define memalloc_noio_restore(flags) ((void)(flags))
#define GFP_ATOMIC 0
#define __GFP_NOWARN 0
#define kmalloc(size, flags) aligned_alloc(64, ((size) + 63) / 64 * 64)
#define kvmalloc kmalloc
#define kzalloc_node(size, flags, node) calloc(1, size)
#define kfree(p) free((void *)(p))
#define kvfree kfree

/* Nanoseconds of this machine, for what the module measures; and of the load, for the policy. */
extern u64 tsc_scale, load_now;
static inline u64 local_clock(void)
{
	return (u64)((unsigned __int128)__rdtsc() * tsc_scale >> 32);
}
static inline u64 ktime_get_ns(void)
{
	return load_now;
}
#define ns_to_ktime(ns) ((ktime_t)(ns))
#define jiffies ((unsigned long)(load_now / 4000000))
#define msecs_to_jiffies(ms) ((unsigned long)(ms) / 4)
#define time_after(a, b) ((long)((b) - (a)) < 0)

typedef struct { int is_locked; } spinlock_t;
static inline void spin_lock_init(spinlock_t *lock)
{
	lock->is_locked = 0;
}
static inline void take_lock(spinlock_t *lock)
{
	while (__atomic_exchange_n(&lock->is_locked, 1, __ATOMIC_ACQUIRE))
		while (READ_ONCE(lock->is_locked))
			_mm_pause();
}
static inline void release_lock(spinlock_t *lock)
{
	__atomic_store_n(&lock->is_locked, 0, __ATOMIC_RELEASE);
}
/* How long the lock is held: the harness's. */
void lock_taken(void);
void lock_released(void);
#define spin_lock(lock) do { take_lock(lock); lock_taken(); } while (0)
#define spin_unlock(lock) do { lock_released(); release_lock(lock); } while (0)
#define spin_lock_irqsave(lock, flags) do { (flags) = 0; spin_lock(lock); } while (0)
#define spin_unlock_irqrestore(lock, flags) do { (void)(flags); spin_unlock(lock); } while (0)
typedef struct { int value; } atomic_t;
#define atomic_read(a) READ_ONCE((a)->value)
#define atomic_set(a, to) WRITE_ONCE((a)->value, to)
#define atomic_add(by, a) ((void)__atomic_add_fetch(&(a)->value, by, __ATOMIC_SEQ_CST))
#define atomic_inc(a) atomic_add(1, a)
#define smp_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define smp_mb__after_atomic() __asm__ volatile("" ::: "memory")
#define atomic_inc_return(a) __atomic_add_fetch(&(a)->value, 1, __ATOMIC_SEQ_CST)

struct list_head { struct list_head *next, *prev; };
#define LIST_HEAD(name) struct list_head name = { &name, &name }
static inline void INIT_LIST_HEAD(struct list_head *l)
{
	l->next = l->prev = l;
}
static inline void list_between(struct list_head *l, struct list_head *prev, struct list_head *next)
{
	l->prev = prev, l->next = next, prev->next = l, next->prev = l;
}
#define list_add(l, head) list_between(l, head, (head)->next)
#define list_add_tail(l, head) list_between(l, (head)->prev, head)
static inline void list_del_init(struct list_head *l)
{
	l->prev->next = l->next, l->next->prev = l->prev;
	INIT_LIST_HEAD(l);
}
#define list_empty(head) ((head)->next == (head))
#define list_empty_careful list_empty
#define list_entry container_of
#define list_first_entry(head, type, member) list_entry((head)->next, type, member)
#define list_first_entry_or_null(head, type, member) (list_empty(head) ? NULL : list_entry((head)->next, type, member))
#define list_for_each_entry_safe(at, n, head, member)							\
	for (at = list_entry((head)->next, __typeof__(*at), member), n = list_entry(at->member.next, __typeof__(*at), member); \
	     &at->member != (head); at = n, n = list_entry(n->member.next, __typeof__(*n), member))

struct hlist_node { struct hlist_node *next, **pprev; };
struct hlist_head { struct hlist_node *first; };
#define DECLARE_HASHTABLE(name, bits) struct hlist_head name[1 << (bits)]

struct rb_node { struct rb_node *parent, *rb_left, *rb_right; };
struct rb_root { struct rb_node *rb_node; };
#define RB_ROOT (struct rb_root){ NULL }
#define rb_entry container_of
static inline void rb_link_node(struct rb_node *node, struct rb_node *parent, struct rb_node **link)
{
	*node = (struct rb_node){ .parent = parent };
	*link = node;
}
#define rb_insert_color(node, root) ((void)(root))

struct hrtimer;
enum hrtimer_restart { HRTIMER_NORESTART };
enum { HRTIMER_MODE_ABS };
#define CLOCK_MONOTONIC 1
struct hrtimer { enum hrtimer_restart (*function)(struct hrtimer *); u64 expires; };
#define hrtimer_init(timer, clock, mode) ((timer)->expires = 0)
#define hrtimer_start(timer, at, mode) ((timer)->expires = (at))
#define hrtimer_cancel(timer) ((timer)->expires = 0)

struct kmem_cache;
struct module;
struct attribute { const char *name; umode_t mode; };
struct kobject { int references; };
struct mutex { int is_locked; };
#define kobject_put(k) ((void)(k))

struct io_context { int references; };
struct io_cq { struct request_queue *q; struct io_context *ioc; };
struct task_struct { int pid, tgid; struct io_context *io_context; };
extern __thread struct task_struct *current;
#define put_io_context(ioc) ((ioc)->references--)

#define IOPRIO_PRIO_CLASS(p) (((p) >> 13) & 7)
#define IOPRIO_PRIO_DATA(p) ((p) & 0x1fff)
#define IOPRIO_BE_NORM 4
#define IOPRIO_CLASS_IDLE 3

#define REQ_OP_MASK 0xff
enum { REQ_OP_READ = 0, REQ_OP_WRITE = 1, REQ_OP_FLUSH = 2, REQ_OP_DISCARD = 3, REQ_OP_SECURE_ERASE = 5, REQ_OP_WRITE_ZEROES = 9 };
enum { REQ_SYNC = 1 << 11, REQ_META = 1 << 12, REQ_NOMERGE = 1 << 14, REQ_FUA = 1 << 17, REQ_RAHEAD = 1 << 19 };
#define REQ_NOMERGE_FLAGS REQ_NOMERGE
#define WRITE 1
#define RQF_STARTED 2
#define RQF_NOMERGE_FLAGS 4
#define QUEUE_FLAG_SQ_SCHED 1

struct gendisk { char disk_name[32]; };
struct blk_mq_tag_set { u32 queue_depth; };
struct request_queue {
	struct elevator_queue *elevator;
	struct gendisk *disk;
	struct request *last_merge;
	u32 queue_depth;
	unsigned long nr_requests;
	struct blk_mq_tag_set *tag_set;
	int node;
	spinlock_t queue_lock;
};
struct request {
	struct request_queue *q;
	blk_opf_t cmd_flags;
	u32 rq_flags;
	sector_t sector;
	u32 sectors;
	u16 ioprio;
	struct list_head queuelist;
	struct hlist_node hash;
	struct rb_node rb_node;
	u64 fifo_time, start_time_ns;
	struct { struct io_cq *icq; void *priv[2]; } elv;
};
struct bio { blk_opf_t bi_opf; u16 bi_ioprio; struct { sector_t bi_sector; } bi_iter; u32 sectors; };
struct sbitmap { u32 depth; };
struct sbitmap_queue { struct sbitmap sb; };
struct blk_mq_tags { struct sbitmap_queue bitmap_tags; };
struct blk_mq_hw_ctx { struct request_queue *queue; struct blk_mq_tags *sched_tags; };
/* One hardware queue. */
extern struct blk_mq_hw_ctx hw_queue;
#define queue_for_each_hw_ctx(q, hctx, i) for (hctx = &hw_queue, i = 0; i < 1; i++)
#define sbitmap_queue_min_shallow_depth(map, depth) ((void)(map))
#define blk_rq_pos(rq) ((rq)->sector)
#define blk_rq_sectors(rq) ((rq)->sectors)
#define req_op(rq) ((rq)->cmd_flags & REQ_OP_MASK)
#define req_get_ioprio(rq) ((rq)->ioprio)
#define rq_data_dir(rq) (req_op(rq) & 1)
#define op_is_write(op) ((op) & 1)
#define op_is_sync(op) (!op_is_write(op) || (op) & (REQ_SYNC | REQ_FUA))
#define bio_sectors(bio) ((bio)->sectors)
#define bio_end_sector(bio) ((bio)->bi_iter.bi_sector + (bio)->sectors)
#define bio_data_dir(bio) ((bio)->bi_opf & 1)
#define queue_max_discard_segments(q) 1
#define blk_queue_nonrot(q) 0
#define blk_queue_is_zoned(q) 0
#define blk_queue_noxmerges(q) 0
#define blk_queue_flag_set(flag, q) ((void)(q))
#define blk_mq_free_request(rq) ((void)(rq))
void blk_mq_run_hw_queues(struct request_queue *, bool async);
#define disk_devt(disk) 0
#define trace_block_rq_insert(rq) ((void)(rq))
/* The tracepoint, off. */
#define DWELL_TRACE_H
#define trace_dwell_decision(...) ((void)0)
#define trace_dwell_decision_enabled() 0

#endif
#endif
