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

#include "causes/kernel.h"
#include "causes/owners.h"
#include "causes/dirty.h"
#include "causes/journals.h"
#include "causes/submit.h"

SEC("license") char licence[] = "GPL";
