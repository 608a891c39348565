// SPDX-License-Identifier: GPL-2.0-only
//
// Hooks where a page becomes dirty or leaves the cache, and where a kernel thread begins to work for an inode.

// What is written at once of a file.
struct part {
	u64 space;
	u64 start;
	u64 end;
	u64 owner;
};

// Whether a page of it is reported for the first time since its folio became dirty, or by this owner.
static inline int is_new(struct part *part, u64 folio, u64 order, u64 since)
{
	u64 page = part->start >> 12, last = (part->end - 1) >> 12;
	int is_new = 0;
	// The 64 pages begin with the folio, if it has fewer.
	u64 first = order < 6 ? folio : page & ~63ull;
	for (int i = 0; i < BLOCKS; i++) {
		u64 before = (page - first) & 63, count = last - page + 1;
		if (count > 64 - before)
			count = 64 - before;
		u64 bits = ~0ull >> (64 - count & 63) << before;
		struct place at = { part->space, first };
		struct reports *known = map_lookup(&reported, &at);
		if (!known) {
			struct reports new = { part->owner, since, bits };
			map_update(&reported, &at, &new, 0);
			is_new = 1;
		} else if (known->owner != part->owner || known->since != since) {
			known->owner = part->owner;
			known->since = since;
			known->pages = bits;
			is_new = 1;
		} else if (bits & ~known->pages) {
			known->pages |= bits;
			is_new = 1;
		}
		page += count;
		if (page > last)
			return is_new;
		first = page & ~63ull;
	}
	return 1;
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
	int is_btrfs = magic == BTRFS_MAGIC;
	// Of others without a device, such as those in a network, no page reaches one.
	if (super->s_bdev ? !is_ours(super->s_bdev) : !is_btrfs || !is_btrfs_ours(super))
		return 0;
	struct task_struct *task = current_task();
	struct place at = { (u64)space, folio->index };
	u64 order = order_of(folio, flags_of(folio));
	u32 bytes = 4096u << order;
	int meta = is_btrfs && inode->i_ino == BTREE_INODE;
	u64 owner = cause(task, meta ? 0 : bytes);
	if (is_btrfs) {
		u64 now = running(super->s_dev);
		if (!(owner & KERNEL_THREAD))
			share(now, owner, bytes >> 12);
		else if (meta)
			owner = now;
	}
	struct writer *writer = meta ? 0 : map_lookup(&writers, &at.space);
	if (!meta)
		wrote(writer, at.space, owner);
	u64 since = note_dirty(&at, owner, meta);
	if (!stream)
		return 0;
	u64 start = at.index << 12, end = start + bytes;
	if (writer) {
		writer->order = order;
		writer->large |= order > 0;
		int is_in_part = order && writer->task == (u32)task->pid && writer->start < end && writer->end > start;
		// A store makes the whole folio dirty.
		if (is_in_part && (is_thread(task) || call_of(task) != NO_CALL)) {
			if (writer->start > start)
				start = writer->start;
			if (writer->end < end)
				end = writer->end;
			struct part part = { at.space, start, end, owner };
			is_new(&part, at.index, order, since);
		}
	}
	report_dirty(task, inode->i_ino, owner, meta, start, end - start);
	return 0;
}

SEC("tp_btf/block_dirty_buffer")
int dirty_buffer(u64 *arguments)
{
	struct buffer_head *buffer = (void *)arguments[0];
	struct block_device *bdev = buffer->b_bdev;
	struct folio *folio = HAS(buffer->b_folio) ? buffer->b_folio : ((struct buffer_head___page *)buffer)->b_page;
	struct address_space *space = folio->mapping;
	if (space != (HAS(bdev->bd_mapping) ? bdev->bd_mapping : ((struct block_device___inode *)bdev)->bd_inode->i_mapping))
		return 0; // of a file: see dirty_folio
	if (!is_ours(bdev))
		return 0;
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
	note_dirty(&at, owner, meta);
	if (stream)
		report_dirty(task, 0, owner, meta, at.index << 12, bytes);
	return 0;
}

// File systems are modules of some kernels, whose types are not the kernel's own: their hooks are raw tracepoints, whose arguments are numbers.
static inline u64 mapping_of(struct inode *inode)
{
	u64 space = 0;
	read_kernel(&space, sizeof(space), &inode->i_mapping);
	return space;
}

// The folio of a page, if it was seen to become dirty. Sets `at` to its first page, and `order`, which is an expectation before.
static inline struct owners *owners_of(struct place *at, u64 *order)
{
	u64 index = at->index;
	at->index &= ~0ull << (*order & 0x1f);
	struct owners *known = map_lookup(&pages, at);
	for (u64 other = 0; !known && other <= ORDER_MAX; other++) {
		*order = other;
		at->index = index & ~0ull << other;
		known = map_lookup(&pages, at);
	}
	return known;
}

// Whether a file is on one of the devices.
static inline int is_file_ours(struct inode *inode)
{
	struct super_block *super = 0;
	struct block_device *bdev = 0;
	read_kernel(&super, sizeof(super), &inode->i_sb);
	read_kernel(&bdev, sizeof(bdev), &super->s_bdev);
	return is_ours_at(bdev);
}

// Writes to a file, whose pages may have been dirty before: adds a second owner, and reports what becomes dirty of a folio that is dirty already.
static inline void writes(struct inode *inode, u64 position, u64 length)
{
	u64 address = mapping_of(inode);
	struct writer *writer = map_lookup(&writers, &address);
	struct task_struct *task = current_task();
	u64 owner = account_of(task);
	u64 start = position & ~4095ull, end = (position + length + 4095) & ~4095ull;
	if (!writer) {
		struct writer new = { owner, start, end, task->pid };
		if (stream && is_file_ours(inode))
			map_update(&writers, &address, &new, 0);
		return;
	}
	if (stream) {
		writer->start = start;
		writer->end = end;
		writer->task = task->pid;
	}
	int is_other = writer->last != owner || writer->several;
	if (!is_other && !writer->large)
		return;
	struct place at = { address, start >> 12 };
	u64 order = writer->order;
	struct owners *known = owners_of(&at, &order);
	if (!known)
		return;
	if (is_other && known->first != owner && known->second != owner) {
		known->second = owner;
		wrote(writer, address, me(task, 0));
	}
	if (!stream)
		return; // without a reader, the events would fill the ring
	// Of a clean one: see dirty_folio.
	int is_beyond = end > (at.index + (1ull << (order & 0x1f))) << 12;
	if (known->meta || (known->is_clean && !is_beyond) || start >= end)
		return;
	struct part part = { address, start, end, owner };
	if (is_new(&part, at.index, order, known->since) || known->is_clean)
		report_dirty(task, inode_of(address), owner, 0, start, end - start);
}

SEC("raw_tp/ext4_da_write_end")
int da_write_end(u64 *arguments)
{
	writes((void *)arguments[0], arguments[1], (u32)arguments[2]);
	return 0;
}

SEC("raw_tp/xfs_file_buffered_write")
int xfs_write(u64 *arguments)
{
	struct kiocb *call = (void *)arguments[0];
	struct iov_iter *data = (void *)arguments[1];
	struct file *file = 0;
	struct inode *inode = 0;
	u64 position = 0, length = 0;
	read_kernel(&file, sizeof(file), &call->ki_filp);
	read_kernel(&inode, sizeof(inode), &file->f_inode);
	read_kernel(&position, sizeof(position), &call->ki_pos);
	read_kernel(&length, sizeof(length), &data->count);
	writes(inode, position, length);
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
			       .bytes = 4096u << order_of(folio, flags_of(folio)), .kind = DROPPED };
	report(&event, NO_WAKEUP);
	return 0;
}

static inline void works_for(struct inode *inode)
{
	struct task_struct *task = current_task();
	if (!is_thread(task))
		return;
	u32 pid = task->pid;
	u64 space = mapping_of(inode);
	map_update(&behalf, &pid, &space, 0);
}

SEC("tp_btf/writeback_single_inode_start")
int inode_start(u64 *arguments)
{
	works_for((void *)arguments[0]);
	return 0;
}

SEC("raw_tp/ext4_mark_inode_dirty")
int ext4_inode(u64 *arguments)
{
	works_for((void *)arguments[0]);
	return 0;
}

SEC("raw_tp/xfs_unwritten_convert")
int xfs_convert(u64 *arguments)
{
	works_for((void *)member_at(arguments[0], XFS_INODE));
	return 0;
}

SEC("raw_tp/xfs_setfilesize")
int xfs_file_size(u64 *arguments)
{
	works_for((void *)member_at(arguments[0], XFS_INODE));
	return 0;
}

SEC("raw_tp/btrfs_ordered_extent_lookup")
int btrfs_lookup(u64 *arguments)
{
	works_for((void *)member_at(arguments[0], BTRFS_INODE));
	return 0;
}
