// SPDX-License-Identifier: GPL-2.0-only
//
// The hook where a bio is submitted: each of its pages is looked up.

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
		report(&event, NO_WAKEUP);
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
	u64 flags = flags_of(folio);
	u64 bytes = (4096ull << order_of(folio, flags)) - before;
	if (bytes > walk->vector)
		bytes = walk->vector;
	if (bytes > walk->left)
		bytes = walk->left;
	if (!bytes || bytes > 1u << 30)
		return 0;
	// Low bits mark pages that belong to no file.
	int is_cached = at.space && !(at.space & 3);
	struct owners *known = is_cached ? map_lookup(&pages, &at) : 0;
	u64 owner = walk->fallback, second = 0, file = 0;
	u16 class = walk->usual;
	// Data of a file that was dirty before the start: a former reader of events has charged it. Not of a process, which may write the pages of another
	// file directly.
	if (stream && is_cached && class == DATA && walk->task & KERNEL_THREAD)
		owner = UNKNOWN;
	if (known && !(walk->journal && known->meta)) {
		owner = known->first;
		second = known->second;
		class = known->meta ? META : DATA;
		file = at.space;
		known->is_clean = !(flags >> BIT_OF(pageflags, PG_dirty) & 1);
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
	// As a number: Linux 6.1 permits no arithmetic with an unbounded index on a pointer.
	if (read_kernel(&walk.vectors, sizeof(walk.vectors), &bio->bi_io_vec))
		return 0;
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
