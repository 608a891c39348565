// SPDX-License-Identifier: GPL-2.0-only
//
// Owners, the maps, and what several hooks do with them.

// Set before loading.
#define DEVICES 8
const volatile u32 devices[DEVICES]; // major << 20 | minor of the whole disk and of the devices on top of it
const volatile u32 by_cgroup;	     // accounts are cgroups, not processes
const volatile u32 stream;	     // report events, and keep no totals
const volatile u64 held[8];	     // a bit for each number of a system call whose writes can be held before they begin

// Folios of a bio are STEPS * STEPS at most; the rest of a longer one is charged like its last folio.
#define STEPS 128
#define ORDER_MAX 9    // of a folio that a write may have found dirty
#define BLOCKS 32      // of 64 pages, of a write whose pages are reported once

// An owner is an account (a process, a cgroup), a kernel thread, or a transaction; the same in src/causes/owner.rs.
#define TRANSACTION (1ull << 63)
#define KERNEL_THREAD (1ull << 62)
#define UNKNOWN KERNEL_THREAD

enum class { DATA = 0, META = 1, JOURNAL = 2, READ = 3 };
enum event_kind { RUN = 1, DIRTIED = 2, SHARE = 3, DROPPED = 4 };

struct owners {
	u64 first;
	u64 second; // another writer of the same page; 0: none
	u32 meta;
	u32 is_clean; // for events: it was submitted
	u64 since;    // for events: another number each time when it becomes dirty
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

struct share {
	u64 blocks;
	u64 reported; // for events: of the blocks
};

struct writer {
	u64 last;
	// For events: what the task `task` writes at the moment. Of a large folio that becomes dirty only this is.
	u64 start;
	u64 end;
	u32 task;
	u8 several; // it has other writers
	u8 large;   // for events: it has folios of several pages
	u8 order;   // for events: of the folio that became dirty last
	u8 unused;
};

// For events: which pages of 64 of a large folio were reported.
struct reports {
	u64 owner; // of the pages
	u64 since; // of the folio
	u64 pages; // a bit for each
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
	u64 sector; // of DIRTIED: the thread, if the write could not be held
	u32 bytes;
	u16 kind;
	u16 class;
};

#define UINT(name, value) int(*name)[value]
#define HASH 1
#define ARRAY 2
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
MAP(shares, LRU_HASH, 1 << 14, struct share_key, struct share);
MAP(writers, LRU_HASH, 1 << 14, u64, struct writer); // by mapping
MAP(reported, LRU_HASH, 1 << 13, struct place, struct reports); // by mapping and number of the 64 pages
MAP(behalf, LRU_HASH, 1 << 10, u32, u64);	     // kernel thread -> mapping
MAP(transactions, LRU_HASH, 1 << 8, u64, u64);	     // address of a transaction of jbd2 -> transaction
MAP(commits, LRU_HASH, 1 << 8, u32, u64);	     // journal thread -> transaction
MAP(latest, LRU_HASH, 1 << 10, u32, u64);	     // kernel thread -> owner of what it wrote last
MAP(epochs, LRU_HASH, 1 << 8, u32, struct epoch);    // by device

// Members of structures of XFS and btrfs, which are modules of some kernels, so that their types are not the kernel's own; the same in
// src/causes/layout.rs.
enum member {
	TRANS_MOUNT,
	MOUNT_SUPER,
	MOUNT_LOG,
	LOG_START,
	LOG_SIZE,
	ITEM_BUFFER,
	BUFFER_SECTOR,
	BUFFER_TARGET,
	TARGET_DEVICE,
	XFS_INODE,
	BTRFS_INODE,
	BTRFS_SUPER,
	BTRFS_DEVICES,
	DEVICES_LIST,
	DEVICE_IN_LIST,
	DEVICE_BDEV,
	MEMBERS,
};
MAP(layout, ARRAY, MEMBERS, u32, u32); // offsets, set before the program that uses them is attached

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

// Likewise, of a pointer that the verifier does not know.
static inline int is_ours_at(struct block_device *bdev)
{
	struct gendisk *disk = 0;
	struct block_device *whole = 0;
	u32 number = 0;
	read_kernel(&disk, sizeof(disk), &bdev->bd_disk);
	read_kernel(&whole, sizeof(whole), &disk->part0);
	read_kernel(&number, sizeof(number), &whole->bd_dev);
	for (int i = 0; i < DEVICES; i++)
		if (number && devices[i] == number)
			return 1;
	return 0;
}

// The address of a member, and its value.
static inline u64 member_at(u64 structure, enum member member)
{
	u32 key = member;
	u32 *offset = map_lookup(&layout, &key);
	return structure + (offset ? *offset : 0);
}

static inline u64 value(u64 structure, enum member member, u32 size)
{
	u64 value = 0;
	read_kernel(&value, size, (void *)member_at(structure, member));
	return value;
}

// Whether a btrfs is on one of the devices: it has a list of its own, and `s_bdev` is 0. As long as its layout is unknown, it is.
static inline int is_btrfs_ours(struct super_block *super)
{
	u32 key = BTRFS_DEVICES;
	u32 *known = map_lookup(&layout, &key);
	if (!known || !*known)
		return 1;
	u64 list = member_at(value((u64)super->s_fs_info, BTRFS_DEVICES, 8), DEVICES_LIST);
	u64 next = list;
	for (int i = 0; i < DEVICES; i++) {
		if (read_kernel(&next, sizeof(next), (void *)next) || next == list)
			return 0;
		u64 device = next - member_at(0, DEVICE_IN_LIST);
		if (is_ours_at((void *)value(device, DEVICE_BDEV, 8)))
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
	if (stream)
		return owner; // the reader has the names
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

static inline void report(struct event *event, u64 flags)
{
	if (ringbuf_output(&events, event, sizeof(*event), flags))
		__sync_fetch_and_add(&lost, 1);
}

static inline void share(u64 whose, u64 owner, u64 blocks)
{
	struct share_key key = { whose, owner };
	struct share new = {}, *known = map_lookup(&shares, &key);
	if (!known) {
		new.blocks = new.reported = blocks;
		map_update(&shares, &key, &new, 0);
	} else {
		__sync_fetch_and_add(&known->blocks, blocks);
		blocks = known->blocks - known->reported;
		// The first ones, then each eighth more: a program may change metadata with each page that it writes.
		if (!stream || blocks <= known->reported >> 3)
			return;
		known->reported += blocks;
	}
	if (stream) {
		struct event event = { .owner = whose, .second = owner, .offset = blocks, .kind = SHARE };
		report(&event, NO_WAKEUP);
	}
}

static inline void wrote(struct writer *known, u64 space, u64 owner)
{
	if (!known) {
		struct writer new = { .last = owner };
		map_update(&writers, &space, &new, 0);
	} else if (known->last != owner) {
		known->several = 1;
		known->last = owner;
	}
}

static inline u64 flags_of(struct folio *folio)
{
	u64 flags = 0;
	read_kernel(&flags, sizeof(flags), folio);
	return flags;
}

// The pages of a folio are 1 << order.
static inline u64 order_of(struct folio *folio, u64 flags)
{
	if (!(flags >> BIT_OF(pageflags, PG_head) & 1))
		return 0;
	u64 order = 0;
	if (HAS(((struct folio___order *)folio)->_folio_order))
		read_kernel(&order, 1, &((struct folio___order *)folio)->_folio_order);
	else
		read_kernel(&order, sizeof(order), &folio->_flags_1);
	return order & 0x1f;
}

static inline u64 inode_of(u64 space)
{
	struct inode *inode = 0;
	unsigned long number = 0;
	read_kernel(&inode, sizeof(inode), &((struct address_space *)space)->host);
	read_kernel(&number, sizeof(number), &inode->i_ino);
	return number;
}

#define NO_CALL (~0u)

// The number of the system call that a task is in; NO_CALL in a page fault of its own. Not for kernel threads.
static inline u32 call_of(struct task_struct *task)
{
	struct pt_regs *registers = registers_of(task);
	return HAS(registers->orig_ax) ? registers->orig_ax : ((struct pt_regs___arm64 *)registers)->syscallno;
}

static inline int is_held(u32 call)
{
	u32 word = call >> 6;
	// Or the compiler omits the mask, which the verifier needs.
	asm volatile("" : "+r"(word));
	return call < sizeof(held) * 8 && held[word & 7] >> (call & 63) & 1;
}

static inline void report_dirty(struct task_struct *task, u64 file, u64 owner, u64 meta, u64 offset, u32 bytes)
{
	int stores = !meta && !is_thread(task) && !is_held(call_of(task));
	struct event event = { .owner = owner, .file = file, .offset = offset, .sector = stores ? (u32)task->pid : 0,
			       .bytes = bytes, .kind = DIRTIED, .class = meta ? META : DATA };
	report(&event, NO_WAKEUP);
}

// Returns `since`.
static inline u64 note_dirty(struct place *at, u64 owner, u64 meta)
{
	struct owners *known = map_lookup(&pages, at);
	if (known) {
		// In place, which costs a third of a new element.
		known->first = owner;
		known->second = 0;
		known->meta = meta;
		known->is_clean = 0;
		return ++known->since;
	}
	struct owners new = { owner, 0, meta, 0, stream ? now_ns() : 0 };
	map_update(&pages, at, &new, 0);
	return new.since;
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
