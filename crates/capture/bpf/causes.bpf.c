// SPDX-License-Identifier: GPL-2.0-only
//
// Who dirtied the data that a block device is asked to write.
//
// A page is noted with the account of the task that dirties it (writeback_dirty_folio; block_dirty_buffer for buffers of the
// block device; ext4_da_write_end for further writers of a dirty page). When a bio is submitted (block_bio_queue), each of
// its pages is looked up. A journal belongs to all accounts of its transaction, which user space divides by the blocks that
// each of them dirtied: a transaction is an owner like an account.
//
// What kernel threads dirty on behalf of an inode (allocation at writeback, conversion of unwritten extents) belongs to the
// account that last dirtied a page of the inode.
//
// Built by build.sh; needs clang and nothing else.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define inline inline __attribute__((always_inline))
#define global __attribute__((noinline))

// As far as they are used here; where the fields really are is looked up when the program is loaded (CO-RE).
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct gendisk;
struct block_device {
	u64 bd_start_sect;
	u32 bd_dev;
	struct gendisk *bd_disk;
	void *bd_holder;
	struct address_space *bd_mapping;
};
struct gendisk {
	struct block_device *part0;
};
struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct block_device *s_bdev;
};
struct inode {
	struct super_block *i_sb;
	struct address_space *i_mapping;
	unsigned long i_ino;
};
struct address_space {
	struct inode *host;
};
struct page {
	unsigned long compound_head;
};
struct folio {
	struct address_space *mapping;
	unsigned long index;
	unsigned long _flags_1;
};
struct bio_vec {
	struct page *bv_page;
	u32 bv_len;
	u32 bv_offset;
};
struct bvec_iter {
	u64 bi_sector;
	u32 bi_size;
	u32 bi_idx;
	u32 bi_bvec_done;
};
struct bio {
	struct block_device *bi_bdev;
	u32 bi_opf;
	struct bvec_iter bi_iter;
	struct bio_vec *bi_io_vec;
};
struct buffer_head {
	struct folio *b_folio;
	struct block_device *b_bdev;
	u64 b_size;
};
struct journal_s {
	struct block_device *j_fs_dev;
};
struct transaction_s {
	u32 t_tid;
};
struct task_struct {
	int pid;
	int tgid;
	u32 flags;
	struct task_struct *group_leader;
	char comm[16];
};
struct xfs_buftarg {
	u32 bt_dev;
};
struct xfs_buf {
	s64 b_rhash_key;
	struct xfs_buftarg *b_target;
};
struct xfs_buf_log_item {
	struct xfs_buf *bli_buf;
};
struct xlog {
	s64 l_logBBstart;
	int l_logBBsize;
};
struct xfs_mount {
	struct super_block *m_super;
	struct xlog *m_log;
};
struct xfs_trans {
	struct xfs_mount *t_mountp;
};
struct xfs_inode {
	struct inode i_vnode;
};
struct btrfs_inode {
	struct inode vfs_inode;
};
struct btrfs_fs_info {
	struct super_block *sb;
};
#pragma clang attribute pop

// Only their names count.
enum req_flag_bits { __REQ_META = 1 };
enum pageflags { PG_head = 1 };
#define BIT_OF(type, name) __builtin_preserve_enum_value(*(enum type *)name, 1)
#define SIZE_OF(type) __builtin_preserve_type_info(*(type *)0, 1)

// Helpers by their numbers, which are the kernel's ABI (include/uapi/linux/bpf.h).
static void *(*const map_lookup)(void *, const void *) = (void *)1;
static long (*const map_update)(void *, const void *, const void *, u64) = (void *)2;
static long (*const map_delete)(void *, const void *) = (void *)3;
static u64 (*const current_cgroup)(void) = (void *)80;
static long (*const read_kernel)(void *, u32, const void *) = (void *)113;
static long (*const ringbuf_output)(void *, void *, u64, u64) = (void *)130;
static struct task_struct *(*const current_task)(void) = (void *)158;

// Values of the kernel's that no type describes.
#define PF_KTHREAD 0x00200000
#define BTRFS_MAGIC 0x9123683E
#define BDEV_MAGIC 0x62646576
#define BTREE_INODE 1
#define NO_WAKEUP 1
#define OP_MASK 0xff
#define OP_READ 0
#define OP_WRITE 1
#define OP_ZONE_APPEND 7

// Set before loading.
#define DEVICES 8
const volatile u32 devices[DEVICES]; // major << 20 | minor of the whole disk and of the devices on top of it
const volatile u32 by_cgroup;	     // accounts are cgroups, not processes
const volatile u32 stream;	     // report events, and keep no totals

// Folios of a bio are STEPS * STEPS at most; the rest of a longer one is charged like its last folio.
#define STEPS 128
#define ORDER_MAX 9    // of a folio that a write may have found dirty

// An owner is an account (a process, a cgroup), a kernel thread, or a transaction; the same in src/causes/owner.rs.
#define TRANSACTION (1ull << 63)
#define KERNEL_THREAD (1ull << 62)

enum class { DATA = 0, META = 1, JOURNAL = 2, READ = 3 };
enum event_kind { RUN = 1, DIRTIED = 2, SHARE = 3, DROPPED = 4 };

struct owners {
	u64 first;
	u64 second; // another writer of the same page; 0: none
	u64 meta;
};

struct place {
	u64 space; // address of the mapping; SECTORS | device for buffers that are in no page cache
	u64 index;
};
#define SECTORS (1ull << 32)

struct total_key {
	u64 owner;
	u32 class;
	u32 submitter; // 0: the owner itself
};

struct total {
	u64 bytes;
	u64 requests;
};

struct account {
	char name[16];
	u64 dirtied; // bytes
	u64 task;
};

struct share_key {
	u64 transaction;
	u64 account;
};

struct writer {
	u64 last;
	u64 several;
};

// A file system without a numbered transaction: XFS, btrfs.
struct epoch {
	u64 number;
	u64 written;
	u64 log_start; // of XFS: its first sector, and the one behind it
	u64 log_end;
};

struct event {
	u64 owner;
	u64 second;
	u64 file;
	u64 offset;
	u64 sector;
	u32 bytes;
	u16 kind;
	u16 class;
};

#define UINT(name, value) int(*name)[value]
#define HASH 1
#define LRU_HASH 9
#define MAP(map, map_type, entries, key_type, value_type) \
	struct {                                          \
		UINT(type, map_type);                     \
		UINT(max_entries, entries);               \
		key_type *key;                            \
		value_type *value;                        \
	} map SEC(".maps")

MAP(pages, LRU_HASH, 1 << 18, struct place, struct owners);
MAP(totals, HASH, 1 << 15, struct total_key, struct total);
MAP(accounts, LRU_HASH, 1 << 13, u64, struct account);
MAP(shares, LRU_HASH, 1 << 14, struct share_key, u64);
MAP(writers, LRU_HASH, 1 << 14, u64, struct writer); // by mapping
MAP(behalf, LRU_HASH, 1 << 10, u32, u64);	     // kernel thread -> mapping
MAP(commits, LRU_HASH, 1 << 8, u32, u64);	     // journal thread -> transaction
MAP(latest, LRU_HASH, 1 << 10, u32, u64);	     // kernel thread -> owner of what it wrote last
MAP(epochs, LRU_HASH, 1 << 8, u32, struct epoch);    // by device

struct {
	UINT(type, 27); // ring buffer
	UINT(max_entries, 1 << 12);
} events SEC(".maps");

volatile u64 lost; // totals that found no room, and events

static inline int is_ours(struct block_device *bdev)
{
	u32 number = bdev->bd_disk->part0->bd_dev;
	for (int i = 0; i < DEVICES; i++) {
		if (devices[i] == 0)
			return 0;
		if (devices[i] == number)
			return 1;
	}
	return 0;
}

static inline u64 transaction(u32 device, u64 number)
{
	return TRANSACTION | (u64)(device & 0x7fffffff) << 31 | (number & 0x7fffffff);
}

static inline int is_thread(struct task_struct *task)
{
	return (task->flags & PF_KTHREAD) != 0;
}

static inline u64 account_of(struct task_struct *task)
{
	if (is_thread(task))
		return KERNEL_THREAD | (u32)task->pid;
	return by_cgroup ? current_cgroup() : (u32)task->tgid;
}

// The account of the running task, which is noted with its name.
static inline u64 me(struct task_struct *task, u32 dirtied)
{
	u64 owner = account_of(task);
	struct account *known = map_lookup(&accounts, &owner);
	if (known) {
		if (dirtied)
			__sync_fetch_and_add(&known->dirtied, dirtied);
		return owner;
	}
	struct account new = { .dirtied = dirtied, .task = (u32)task->tgid };
	struct task_struct *leader = is_thread(task) ? task : task->group_leader;
	read_kernel(new.name, sizeof(new.name), &leader->comm);
	map_update(&accounts, &owner, &new, 0);
	return owner;
}

// The account for which a kernel thread works, if it is known.
static inline u64 behalf_of(struct task_struct *task)
{
	u32 pid = task->pid;
	u64 *space = map_lookup(&behalf, &pid);
	if (!space)
		return 0;
	u64 address = *space;
	struct writer *writer = map_lookup(&writers, &address);
	return writer ? writer->last : 0;
}

static inline u64 cause(struct task_struct *task, u32 dirtied)
{
	u64 owner = is_thread(task) ? behalf_of(task) : 0;
	return owner ? owner : me(task, dirtied);
}

static inline void report(struct event *event)
{
	// The reader polls: a wake-up for each page would cost more than everything else here.
	if (ringbuf_output(&events, event, sizeof(*event), NO_WAKEUP))
		__sync_fetch_and_add(&lost, 1);
}

static inline void share(u64 whose, u64 owner, u64 blocks)
{
	if (stream) {
		struct event event = { .owner = whose, .second = owner, .offset = blocks, .kind = SHARE };
		report(&event);
		return;
	}
	struct share_key key = { whose, owner };
	u64 *known = map_lookup(&shares, &key);
	if (known)
		__sync_fetch_and_add(known, blocks);
	else
		map_update(&shares, &key, &blocks, 0);
}

static inline void wrote(u64 space, u64 owner)
{
	struct writer *known = map_lookup(&writers, &space);
	if (!known) {
		struct writer new = { owner, 0 };
		map_update(&writers, &space, &new, 0);
	} else if (known->last != owner) {
		known->several = 1;
		known->last = owner;
	}
}

static inline u64 page_bytes(struct folio *folio)
{
	u64 flags = 0;
	read_kernel(&flags, sizeof(flags), folio);
	if (!(flags >> BIT_OF(pageflags, PG_head) & 1))
		return 4096;
	u64 order = 0;
	read_kernel(&order, sizeof(order), &folio->_flags_1);
	return 4096ull << (order & 0x1f);
}

static inline void note_dirty(struct place *at, u64 file, u64 owner, u64 meta, u32 bytes)
{
	struct owners new = { owner, 0, meta };
	map_update(&pages, at, &new, 0);
	if (stream) {
		struct event event = { .owner = owner, .file = file, .offset = at->index << 12,
				       .bytes = bytes, .kind = DIRTIED, .class = meta ? META : DATA };
		report(&event);
	}
}

// The transaction that runs in a file system without numbers.
static inline u64 running(u32 device)
{
	struct epoch *epoch = map_lookup(&epochs, &device);
	if (epoch)
		return transaction(device, epoch->number);
	struct epoch first = { 1, 0, 0, 0 };
	map_update(&epochs, &device, &first, 0);
	return transaction(device, 1);
}

SEC("tp_btf/writeback_dirty_folio")
int dirty_folio(u64 *arguments)
{
	struct folio *folio = (void *)arguments[0];
	struct address_space *space = (void *)arguments[1];
	if (!space)
		return 0;
	struct inode *inode = space->host;
	struct super_block *super = inode->i_sb;
	u64 magic = super->s_magic;
	if (magic == BDEV_MAGIC)
		return 0; // see dirty_buffer
	// A file system over several devices has none of its own.
	if (super->s_bdev && !is_ours(super->s_bdev))
		return 0;
	struct task_struct *task = current_task();
	struct place at = { (u64)space, folio->index };
	u32 bytes = page_bytes(folio);
	int is_btrfs = magic == BTRFS_MAGIC;
	int meta = is_btrfs && inode->i_ino == BTREE_INODE;
	u64 owner = cause(task, meta ? 0 : bytes);
	if (is_btrfs) {
		u64 now = running(super->s_dev);
		if (!(owner & KERNEL_THREAD))
			share(now, owner, bytes >> 12);
		else if (meta)
			owner = now;
	}
	if (!meta)
		wrote((u64)space, owner);
	note_dirty(&at, inode->i_ino, owner, meta, bytes);
	return 0;
}

SEC("tp_btf/block_dirty_buffer")
int dirty_buffer(u64 *arguments)
{
	struct buffer_head *buffer = (void *)arguments[0];
	struct block_device *bdev = buffer->b_bdev;
	if (!is_ours(bdev))
		return 0;
	struct folio *folio = buffer->b_folio;
	struct address_space *space = folio->mapping;
	if (space != bdev->bd_mapping)
		return 0; // of a file: see dirty_folio
	struct task_struct *task = current_task();
	u32 pid = task->pid;
	u64 meta = bdev->bd_holder != 0;
	u32 bytes = buffer->b_size;
	u64 *commit = map_lookup(&commits, &pid);
	u64 owner = commit ? *commit : cause(task, meta ? 0 : bytes);
	struct place at = { (u64)space, folio->index };
	struct owners *known = map_lookup(&pages, &at);
	if (known && known->first != owner && bytes < 4096) {
		known->second = owner;
		return 0;
	}
	note_dirty(&at, 0, owner, meta, bytes);
	return 0;
}

// Adds a second owner to a page that may have been dirty already.
static inline void write_end(struct inode *inode, u64 position)
{
	struct address_space *space = inode->i_mapping;
	u64 address = (u64)space;
	struct writer *writer = map_lookup(&writers, &address);
	if (!writer)
		return;
	struct task_struct *task = current_task();
	u64 owner = account_of(task);
	if (writer->last == owner && !writer->several)
		return;
	struct place at = { address, position >> 12 };
	for (int order = 0; order <= ORDER_MAX; order++) {
		at.index &= ~0ull << order;
		struct owners *known = map_lookup(&pages, &at);
		if (!known)
			continue;
		if (known->first != owner && known->second != owner) {
			known->second = owner;
			wrote(address, me(task, 0));
		}
		return;
	}
}

SEC("tp_btf/ext4_da_write_end")
int da_write_end(u64 *arguments)
{
	write_end((void *)arguments[0], arguments[1]);
	return 0;
}

// Attached only for events: a page leaves the cache. If it was dirty, it was discarded.
SEC("tp_btf/mm_filemap_delete_from_page_cache")
int drop_folio(u64 *arguments)
{
	struct folio *folio = (void *)arguments[0];
	struct address_space *space = folio->mapping;
	struct place at = { (u64)space, folio->index };
	struct owners *known = map_lookup(&pages, &at);
	if (!known || known->meta)
		return 0;
	map_delete(&pages, &at);
	struct event event = { .file = space->host->i_ino, .offset = at.index << 12,
			       .bytes = page_bytes(folio), .kind = DROPPED };
	report(&event);
	return 0;
}

static inline void works_for(struct inode *inode)
{
	struct task_struct *task = current_task();
	if (!is_thread(task))
		return;
	u32 pid = task->pid;
	u64 space = (u64)inode->i_mapping;
	map_update(&behalf, &pid, &space, 0);
}

SEC("tp_btf/writeback_single_inode_start")
int inode_start(u64 *arguments)
{
	works_for((void *)arguments[0]);
	return 0;
}

SEC("tp_btf/ext4_mark_inode_dirty")
int ext4_inode(u64 *arguments)
{
	works_for((void *)arguments[0]);
	return 0;
}

SEC("tp_btf/xfs_unwritten_convert")
int xfs_convert(u64 *arguments)
{
	works_for(&((struct xfs_inode *)arguments[0])->i_vnode);
	return 0;
}

SEC("tp_btf/xfs_setfilesize")
int xfs_file_size(u64 *arguments)
{
	works_for(&((struct xfs_inode *)arguments[0])->i_vnode);
	return 0;
}

SEC("tp_btf/btrfs_ordered_extent_lookup")
int btrfs_lookup(u64 *arguments)
{
	works_for(&((struct btrfs_inode *)arguments[0])->vfs_inode);
	return 0;
}

SEC("tp_btf/jbd2_handle_stats")
int handle_stats(u64 *arguments)
{
	u32 blocks = arguments[7];
	struct task_struct *task = current_task();
	u64 owner = cause(task, 0);
	// Kernel threads get no share of the transaction.
	if (owner & KERNEL_THREAD)
		return 0;
	share(transaction(arguments[0], arguments[1]), owner, blocks + 1);
	return 0;
}

SEC("tp_btf/jbd2_start_commit")
int start_commit(u64 *arguments)
{
	struct journal_s *journal = (void *)arguments[0];
	u32 device = journal->j_fs_dev->bd_dev;
	u32 pid = current_task()->pid;
	u64 whose = transaction(device, ((struct transaction_s *)arguments[1])->t_tid);
	map_update(&commits, &pid, &whose, 0);
	return 0;
}

SEC("tp_btf/xfs_trans_commit")
int xfs_commit(u64 *arguments)
{
	struct xfs_mount *mount = ((struct xfs_trans *)arguments[0])->t_mountp;
	struct super_block *super = mount->m_super;
	if (!is_ours(super->s_bdev))
		return 0;
	u32 device = super->s_dev;
	u64 owner = cause(current_task(), 0);
	struct epoch *epoch = map_lookup(&epochs, &device);
	u64 number = 1;
	if (!epoch) {
		struct xlog *log = mount->m_log;
		u64 start = log->l_logBBstart;
		struct epoch first = { 1, 0, start, start + log->l_logBBsize };
		map_update(&epochs, &device, &first, 0);
	} else {
		if (owner & KERNEL_THREAD)
			return 0;
		if (epoch->written == epoch->number)
			epoch->number++;
		number = epoch->number;
	}
	if (!(owner & KERNEL_THREAD))
		share(transaction(device, number), owner, 1);
	return 0;
}

SEC("tp_btf/xfs_trans_log_buf")
int xfs_log_buf(u64 *arguments)
{
	struct xfs_buf *buffer = ((struct xfs_buf_log_item *)arguments[0])->bli_buf;
	u32 device = buffer->b_target->bt_dev;
	u64 owner = cause(current_task(), 0);
	if (owner & KERNEL_THREAD)
		return 0;
	struct place at = { SECTORS | device, buffer->b_rhash_key };
	struct owners new = { owner, 0, 1 };
	map_update(&pages, &at, &new, 0);
	return 0;
}

SEC("tp_btf/btrfs_transaction_commit")
int btrfs_commit(u64 *arguments)
{
	struct super_block *super = ((struct btrfs_fs_info *)arguments[0])->sb;
	u32 device = super->s_dev;
	struct epoch *epoch = map_lookup(&epochs, &device);
	if (epoch)
		epoch->number++;
	return 0;
}

static inline void add(u64 owner, u32 class, u32 submitter, u64 bytes, u64 requests)
{
	struct total_key key = { owner, class, submitter };
	struct total *known = map_lookup(&totals, &key);
	if (known) {
		__sync_fetch_and_add(&known->bytes, bytes);
		__sync_fetch_and_add(&known->requests, requests);
		return;
	}
	struct total new = { bytes, requests };
	if (map_update(&totals, &key, &new, 0))
		__sync_fetch_and_add(&lost, 1);
}

// The way through the pages of a bio. A run is a sequence of pages with the same owners in one file.
struct walk {
	u64 vectors;
	u64 page;     // of the present vector
	u64 journal;  // the transaction that the submitter commits; 0: none
	u64 fallback; // the owner of a page that was not seen to become dirty
	u64 owner;    // of the run
	u64 second;
	u64 file;
	u64 offset;
	u64 sector;
	u64 first; // the owner of the bio's first run
	u64 task;  // the submitter's account
	u32 index;
	u32 inside; // offset in the page
	u32 vector; // bytes left of the vector
	u32 left;   // bytes left of the bio
	u32 run;    // bytes
	u16 class;
	u16 usual; // the class of a page that was not seen to become dirty
	u32 submitter;
};

static inline u64 inode_of(u64 space)
{
	struct inode *inode = 0;
	unsigned long number = 0;
	read_kernel(&inode, sizeof(inode), &((struct address_space *)space)->host);
	read_kernel(&number, sizeof(number), &inode->i_ino);
	return number;
}

static inline void end_run(struct walk *walk)
{
	u64 owner = walk->owner;
	u32 bytes = walk->run;
	if (!bytes)
		return;
	if (stream) {
		u64 inode = walk->file ? inode_of(walk->file) : 0;
		struct event event = { .owner = owner, .second = walk->second, .file = inode,
				       .offset = walk->offset, .sector = walk->sector, .bytes = bytes,
				       .kind = RUN, .class = walk->class };
		report(&event);
	} else {
		// Without a reader that removes totals, the map would be full after 32,768 transactions.
		u64 requests = !walk->first || owner != walk->first;
		if (!walk->first)
			walk->first = owner;
		u32 submitter = owner == walk->task ? 0 : walk->submitter;
		u32 others = walk->second ? bytes / 2 : 0;
		add(owner, walk->class, submitter, bytes - others, requests);
		if (others)
			add(walk->second, walk->class, submitter, others, requests);
	}
	walk->sector += bytes >> 9;
	walk->run = 0;
}

static inline int next_vector(struct walk *walk)
{
	struct bio_vec vector = {};
	u64 address = walk->vectors + (u64)walk->index * SIZE_OF(struct bio_vec);
	struct bio_vec *at = (void *)address;
	if (read_kernel(&vector.bv_page, 8, &at->bv_page) || read_kernel(&vector.bv_len, 4, &at->bv_len) ||
	    read_kernel(&vector.bv_offset, 4, &at->bv_offset))
		return 0;
	walk->index++;
	walk->vector = vector.bv_len;
	walk->page = (u64)vector.bv_page + (vector.bv_offset >> 12) * (u64)SIZE_OF(struct page);
	walk->inside = vector.bv_offset & 4095;
	return walk->vector != 0;
}

// Charges the part of the bio that is in one folio. Not inline, so that it is verified once and not for each page.
global int step(struct walk *walk)
{
	if (!walk || !walk->left)
		return 0;
	if (!walk->vector && !next_vector(walk))
		return 0;
	u64 head = 0;
	read_kernel(&head, 8, &((struct page *)walk->page)->compound_head);
	head = head & 1 ? head - 1 : walk->page;
	struct folio *folio = (void *)head;
	struct place at = {};
	read_kernel(&at.space, 8, &folio->mapping);
	read_kernel(&at.index, 8, &folio->index);
	u64 before = (walk->page - head) / SIZE_OF(struct page) * 4096 + walk->inside;
	u64 bytes = page_bytes(folio) - before;
	if (bytes > walk->vector)
		bytes = walk->vector;
	if (bytes > walk->left)
		bytes = walk->left;
	if (!bytes || bytes > 1u << 30)
		return 0;
	// Low bits mark pages that belong to no file.
	struct owners *known = at.space && !(at.space & 3) ? map_lookup(&pages, &at) : 0;
	u64 owner = walk->fallback, second = 0, file = 0;
	u16 class = walk->usual;
	if (known && !(walk->journal && known->meta)) {
		owner = known->first;
		second = known->second;
		class = known->meta ? META : DATA;
		file = at.space;
	}
	u64 offset = (at.index << 12) + before;
	if (walk->run && (owner != walk->owner || second != walk->second || class != walk->class ||
			  file != walk->file || (file && offset != walk->offset + walk->run)))
		end_run(walk);
	if (!walk->run) {
		walk->owner = owner;
		walk->second = second;
		walk->class = class;
		walk->file = file;
		walk->offset = offset;
	}
	walk->run += bytes;
	walk->left -= bytes;
	walk->vector -= bytes;
	u64 forward = walk->inside + bytes;
	walk->page += (forward >> 12) * SIZE_OF(struct page);
	walk->inside = forward & 4095;
	return 1;
}

// Not inline, as one loop over all of them has too many jumps for the kernel's verifier.
global int steps(struct walk *walk)
{
	for (int i = 0; i < STEPS; i++)
		if (!step(walk))
			return 0;
	return 1;
}

// The owner and class of those of a bio's pages that were not seen to become dirty.
static inline void expect(struct walk *walk, struct bio *bio, struct task_struct *task, int meta)
{
	u32 pid = task->pid;
	u64 *commit = map_lookup(&commits, &pid);
	walk->usual = meta ? META : DATA;
	walk->fallback = walk->task;
	if (commit) {
		walk->journal = walk->fallback = *commit;
		walk->usual = JOURNAL;
		return;
	}
	if (meta) {
		struct block_device *bdev = bio->bi_bdev;
		u32 device = bdev->bd_dev;
		u64 sector = bio->bi_iter.bi_sector - bdev->bd_start_sect;
		struct place at = { SECTORS | device, sector };
		struct owners *known = map_lookup(&pages, &at);
		struct epoch *epoch = map_lookup(&epochs, &device);
		if (epoch && sector >= epoch->log_start && sector < epoch->log_end) {
			epoch->written = epoch->number;
			walk->fallback = transaction(device, epoch->number);
			walk->usual = JOURNAL;
			return;
		}
		if (known) {
			walk->fallback = known->first;
			return;
		}
		if (epoch && walk->task & KERNEL_THREAD) {
			walk->fallback = transaction(device, epoch->number);
			return;
		}
	}
	if (walk->task & KERNEL_THREAD) {
		u64 *last = map_lookup(&latest, &pid);
		u64 owner = meta && last ? *last : behalf_of(task);
		if (owner)
			walk->fallback = owner;
	}
}

SEC("tp_btf/block_bio_queue")
int bio_queue(u64 *arguments)
{
	struct bio *bio = (void *)arguments[0];
	struct block_device *bdev = bio->bi_bdev;
	// Only the disk itself, not the devices on top of it.
	if (bdev->bd_disk->part0->bd_dev != devices[0])
		return 0;
	u32 opf = bio->bi_opf;
	u32 op = opf & OP_MASK;
	u32 size = bio->bi_iter.bi_size;
	if (!size || (op != OP_READ && op != OP_WRITE && op != OP_ZONE_APPEND))
		return 0;
	struct task_struct *task = current_task();
	struct walk walk = { .task = me(task, 0) };
	walk.submitter = is_thread(task) ? task->pid : task->tgid;
	walk.sector = bio->bi_iter.bi_sector;
	if (op == OP_READ) {
		u64 owner = is_thread(task) ? behalf_of(task) : 0;
		walk.owner = owner ? owner : walk.task;
		walk.class = READ;
		walk.run = size;
		end_run(&walk);
		return 0;
	}
	expect(&walk, bio, task, opf >> BIT_OF(req_flag_bits, __REQ_META) & 1);
	walk.vectors = (u64)bio->bi_io_vec;
	walk.index = bio->bi_iter.bi_idx;
	walk.left = size;
	u32 done = bio->bi_iter.bi_bvec_done;
	if (done) {
		if (!next_vector(&walk))
			return 0;
		walk.vector -= done;
		walk.page += ((walk.inside + done) >> 12) * (u64)SIZE_OF(struct page);
		walk.inside = (walk.inside + done) & 4095;
	}
	for (int i = 0; i < STEPS; i++)
		if (!steps(&walk))
			break;
	if (walk.left) {
		walk.run += walk.left;
		if (!walk.owner)
			walk.owner = walk.fallback;
	}
	u32 pid = task->pid;
	u64 owner = walk.owner;
	end_run(&walk);
	if (is_thread(task) && !(owner & KERNEL_THREAD))
		map_update(&latest, &pid, &owner, 0);
	return 0;
}

SEC("license") char licence[] = "GPL";
