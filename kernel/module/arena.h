/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A policy's memory. A policy is called with interrupts off, where the kernel may refuse memory; so each queue has an arena
 * that is filled when the elevator is chosen and when nr_requests grows. Blocks are powers of two from 16 bytes; a freed
 * block is kept for the next request of its size. What a policy that panicked has left goes with the arena.
 */
#ifndef DWELL_ARENA_H
#define DWELL_ARENA_H

#include <linux/list.h>
#include <linux/types.h>

#define DWELL_ARENA_SHIFT 4 /* smallest block: 16 bytes */
#define DWELL_ARENA_CLASSES 21 /* largest block: 16 MiB */

struct dwell_arena {
	struct list_head chunks;
	char *next, *end; /* unused part of the newest chunk */
	void *free[DWELL_ARENA_CLASSES];
	size_t capacity, used, peak; /* bytes */
	u64 extra; /* blocks that the kernel gave later, in the I/O path */
	u64 refused; /* blocks that the kernel refused in the I/O path */
	bool is_refusing; /* fault injection */
};

void dwell_arena_init(struct dwell_arena *arena);
/* Adds `size` bytes; may sleep. */
int dwell_arena_grow(struct dwell_arena *arena, size_t size);
/* A chunk for dwell_arena_add(), which does not sleep. */
void *dwell_arena_chunk(size_t size);
void dwell_arena_add(struct dwell_arena *arena, void *chunk, size_t size);
void dwell_arena_destroy(struct dwell_arena *arena);
void *dwell_arena_alloc(struct dwell_arena *arena, size_t size, size_t align);
void dwell_arena_free(struct dwell_arena *arena, void *at, size_t size, size_t align);

#endif
