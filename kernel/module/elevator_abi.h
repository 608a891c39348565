/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The interface between blk-mq and an elevator. Linux declares it in block/elevator.h, blk-mq.h and blk-mq-sched.h, which no
 * linux-headers package contains. `configure` writes layout.h, which compares every structure below with the BTF of the
 * kernel that the module is built for; a difference stops the build.
 *
 * Declared for: 6.1, 6.12, 7.3 (Debian 12 and 13 and their backports).
 */
#ifndef DWELL_ELEVATOR_ABI_H
#define DWELL_ELEVATOR_ABI_H

#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hashtable.h>
#include <linux/version.h>

struct blk_mq_debugfs_attr;
struct elevator_queue;
struct elevator_type;
struct io_cq;

enum elv_merge { ELEVATOR_NO_MERGE, ELEVATOR_FRONT_MERGE, ELEVATOR_BACK_MERGE, ELEVATOR_DISCARD_MERGE };

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0)
typedef unsigned int __bitwise blk_insert_t;
#define BLK_MQ_INSERT_AT_HEAD ((__force blk_insert_t)0x01)
#else
typedef bool blk_insert_t;
#define BLK_MQ_INSERT_AT_HEAD true
#endif

/* Since 6.17 the block layer allocates struct elevator_queue and passes it to init_sched. */
#define DWELL_CORE_ALLOCATES (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0))
/* Since 6.17 ioc_lookup_icq() needs no lock. */
#define DWELL_LOOKUP_UNLOCKED (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 17, 0))
/* Since 6.19 depth_updated is called for the queue, before for each hardware context. */
#define DWELL_DEPTH_BY_QUEUE (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 19, 0))

/* The members that limit_depth reads and writes; the kernel's structure continues. */
struct blk_mq_alloc_data {
	struct request_queue *q;
	blk_mq_req_flags_t flags;
	unsigned int shallow_depth;
};

struct elevator_mq_ops {
#if DWELL_CORE_ALLOCATES
	int (*init_sched)(struct request_queue *, struct elevator_queue *);
#else
	int (*init_sched)(struct request_queue *, struct elevator_type *);
#endif
	void (*exit_sched)(struct elevator_queue *);
	int (*init_hctx)(struct blk_mq_hw_ctx *, unsigned int);
	void (*exit_hctx)(struct blk_mq_hw_ctx *, unsigned int);
#if DWELL_DEPTH_BY_QUEUE
	void (*depth_updated)(struct request_queue *);
	void *(*alloc_sched_data)(struct request_queue *);
	void (*free_sched_data)(void *);
#else
	void (*depth_updated)(struct blk_mq_hw_ctx *);
#endif
	bool (*allow_merge)(struct request_queue *, struct request *, struct bio *);
	bool (*bio_merge)(struct request_queue *, struct bio *, unsigned int);
	int (*request_merge)(struct request_queue *, struct request **, struct bio *);
	void (*request_merged)(struct request_queue *, struct request *, enum elv_merge);
	void (*requests_merged)(struct request_queue *, struct request *, struct request *);
	void (*limit_depth)(blk_opf_t, struct blk_mq_alloc_data *);
	void (*prepare_request)(struct request *);
	void (*finish_request)(struct request *);
	void (*insert_requests)(struct blk_mq_hw_ctx *, struct list_head *, blk_insert_t);
	struct request *(*dispatch_request)(struct blk_mq_hw_ctx *);
	bool (*has_work)(struct blk_mq_hw_ctx *);
	void (*completed_request)(struct request *, u64);
	void (*requeue_request)(struct request *);
	struct request *(*former_request)(struct request_queue *, struct request *);
	struct request *(*next_request)(struct request_queue *, struct request *);
	void (*init_icq)(struct io_cq *);
	void (*exit_icq)(struct io_cq *);
};

#define ELV_NAME_MAX 16

struct elv_fs_entry {
	struct attribute attr;
	ssize_t (*show)(struct elevator_queue *, char *);
	ssize_t (*store)(struct elevator_queue *, const char *, size_t);
};

struct elevator_type {
	struct kmem_cache *icq_cache;
	struct elevator_mq_ops ops;
	size_t icq_size;
	size_t icq_align;
	const struct elv_fs_entry *elevator_attrs;
	const char *elevator_name;
	const char *elevator_alias;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
	unsigned int elevator_features;
#endif
	struct module *elevator_owner;
#ifdef CONFIG_BLK_DEBUG_FS
	const struct blk_mq_debugfs_attr *queue_debugfs_attrs;
	const struct blk_mq_debugfs_attr *hctx_debugfs_attrs;
#endif
	char icq_cache_name[ELV_NAME_MAX + 6];
	struct list_head list;
};

#define ELV_HASH_BITS 6

struct elevator_queue {
	struct elevator_type *type;
#if DWELL_CORE_ALLOCATES
	struct elevator_tags *et;
#endif
	void *elevator_data;
	struct kobject kobj;
	struct mutex sysfs_lock;
	unsigned long flags;
	DECLARE_HASHTABLE(hash, ELV_HASH_BITS);
};

int elv_register(struct elevator_type *);
void elv_unregister(struct elevator_type *);
struct elevator_queue *elevator_alloc(struct request_queue *, struct elevator_type *);
void elv_rqhash_del(struct request_queue *, struct request *);
void elv_rb_add(struct rb_root *, struct request *);
void elv_rb_del(struct rb_root *, struct request *);
struct request *elv_rb_former_request(struct request_queue *, struct request *);
struct request *elv_rb_latter_request(struct request_queue *, struct request *);
bool elv_bio_merge_ok(struct request *, struct bio *);
bool blk_mq_sched_try_merge(struct request_queue *, struct bio *, unsigned int, struct request **);
bool blk_mq_sched_try_insert_merge(struct request_queue *, struct request *, struct list_head *);
struct io_cq *ioc_find_get_icq(struct request_queue *);
struct io_cq *ioc_lookup_icq(struct request_queue *);

#endif
