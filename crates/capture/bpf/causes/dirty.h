// SPDX-License-Identifier: GPL-2.0-only
//
// Hooks where a page becomes dirty or leaves the cache, and where a kernel thread begins to work for an inode.

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
	u32 bytes = page_bytes(folio);
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
		wrote((u64)space, owner, stream && bytes > 4096);
	note_dirty(&at, owner, meta);
	if (!stream)
		return 0;
	u64 start = at.index << 12, end = start + bytes;
	u32 pid = task->pid;
	// A store makes the whole folio dirty.
	int is_in_part = bytes > 4096 && !meta && (is_thread(task) || call_of(task) != NO_CALL);
	struct part *part = is_in_part ? map_lookup(&parts, &pid) : 0;
	if (part && part->space == at.space && part->start < end && part->end > start) {
		if (part->start > start)
			start = part->start;
		if (part->end < end)
			end = part->end;
	}
	report_dirty(task, inode->i_ino, owner, meta, start, end - start);
	return 0;
}

SEC("tp_btf/block_dirty_buffer")
int dirty_buffer(u64 *arguments)
{
	struct buffer_head *buffer = (void *)arguments[0];
	struct block_device *bdev = buffer->b_bdev;
	if (!is_ours(bdev))
		return 0;
	struct folio *folio = HAS(buffer->b_folio) ? buffer->b_folio : ((struct buffer_head___page *)buffer)->b_page;
	struct address_space *space = folio->mapping;
	if (space != (HAS(bdev->bd_mapping) ? bdev->bd_mapping : ((struct block_device___inode *)bdev)->bd_inode->i_mapping))
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

// The folio of a page, if it was seen to become dirty.
static inline struct owners *owners_of(u64 space, u64 index)
{
	struct place at = { space, index };
	for (int order = 0; order <= ORDER_MAX; order++) {
		at.index &= ~0ull << order;
		struct owners *known = map_lookup(&pages, &at);
		if (known)
			return known;
	}
	return 0;
}

// Whether a page of a large folio is reported for the first time since the folio became dirty.
static inline int is_new(u64 space, u64 index, u64 since)
{
	struct place at = { space, index };
	u64 *known = map_lookup(&reported, &at);
	if (known && *known == since)
		return 0;
	map_update(&reported, &at, &since, 0);
	return 1;
}

// Writes to a file, whose pages may have been dirty before: adds a second owner, and reports what becomes dirty of a folio that is dirty already.
static inline void writes(struct inode *inode, u64 position, u64 length)
{
	u64 address = mapping_of(inode);
	struct writer *writer = map_lookup(&writers, &address);
	struct task_struct *task = current_task();
	u32 pid = task->pid;
	u64 start = position & ~4095ull, end = (position + length + 4095) & ~4095ull;
	if (stream) {
		struct part part = { address, start, end }, *latest = map_lookup(&parts, &pid);
		if (latest)
			*latest = part;
		else
			map_update(&parts, &pid, &part, 0);
	}
	if (!writer)
		return;
	u64 owner = account_of(task);
	int is_other = writer->last != owner || writer->several;
	if (!is_other && !writer->large)
		return;
	struct owners *known = owners_of(address, start >> 12);
	if (!known)
		return;
	if (is_other && known->first != owner && known->second != owner) {
		known->second = owner;
		wrote(address, me(task, 0), 0);
	}
	if (writer->large && !known->meta && (end - start > 4096 || is_new(address, start >> 12, known->since)))
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
