// SPDX-License-Identifier: GPL-2.0-only
//
// The kernel's types, helpers and values, as far as causes.bpf.c uses them.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

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
// Before Linux 6.11, and its next two before 6.3 and 6.6.
struct block_device___inode {
	struct inode *bd_inode;
};
struct buffer_head___page {
	struct folio *b_page;
};
struct folio___order {
	u8 _folio_order;
};
struct gendisk {
	struct block_device *part0;
};
struct super_block {
	u32 s_dev;
	unsigned long s_magic;
	struct block_device *s_bdev;
	void *s_fs_info;
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
struct file {
	struct inode *f_inode;
};
struct kiocb {
	struct file *ki_filp;
	u64 ki_pos;
};
struct iov_iter {
	u64 count;
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
struct pt_regs {
	unsigned long orig_ax;
};
struct pt_regs___arm64 {
	int syscallno;
};
struct task_struct {
	int pid;
	int tgid;
	u32 flags;
	void *journal_info;
	struct task_struct *group_leader;
	char comm[16];
};
#pragma clang attribute pop

// Only their names count.
enum req_flag_bits { __REQ_META = 1 };
enum pageflags { PG_head = 1, PG_dirty = 2 };
#define BIT_OF(type, name) __builtin_preserve_enum_value(*(enum type *)name, 1)
#define HAS(field) __builtin_preserve_field_info(field, 2)
#define SIZE_OF(type) __builtin_preserve_type_info(*(type *)0, 1)

// Helpers by their numbers, which are the kernel's ABI (include/uapi/linux/bpf.h).
static void *(*const map_lookup)(void *, const void *) = (void *)1;
static long (*const map_update)(void *, const void *, const void *, u64) = (void *)2;
static long (*const map_delete)(void *, const void *) = (void *)3;
static u64 (*const now_ns)(void) = (void *)5;
static u64 (*const current_cgroup)(void) = (void *)80;
static long (*const read_kernel)(void *, u32, const void *) = (void *)113;
static long (*const ringbuf_output)(void *, void *, u64, u64) = (void *)130;
static struct task_struct *(*const current_task)(void) = (void *)158;
static struct pt_regs *(*const registers_of)(struct task_struct *) = (void *)175;

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
