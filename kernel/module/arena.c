// SPDX-License-Identifier: GPL-2.0-only
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "arena.h"

/* Stands before each chunk; keeps what follows aligned to a cache line. */
struct chunk {
	struct list_head list;
} __aligned(64);

void dwell_arena_init(struct dwell_arena *arena)
{
	*arena = (struct dwell_arena){};
	INIT_LIST_HEAD(&arena->chunks);
}

void *dwell_arena_chunk(size_t size)
{
	return kvmalloc(sizeof(struct chunk) + size, GFP_KERNEL);
}

void dwell_arena_add(struct dwell_arena *arena, void *at, size_t size)
{
	struct chunk *chunk = at;

	/* The rest of the chunk before is lost: less than the block that did not fit. */
	list_add(&chunk->list, &arena->chunks);
	arena->next = (char *)(chunk + 1);
	arena->end = arena->next + size;
	arena->capacity += size;
}

int dwell_arena_grow(struct dwell_arena *arena, size_t size)
{
	void *chunk = dwell_arena_chunk(size);

	if (!chunk)
		return -ENOMEM;
	dwell_arena_add(arena, chunk, size);
	return 0;
}

void dwell_arena_destroy(struct dwell_arena *arena)
{
	struct chunk *chunk, *next;

	list_for_each_entry_safe(chunk, next, &arena->chunks, list)
		kvfree(chunk);
	dwell_arena_init(arena);
}

static int class_of(size_t size, size_t align)
{
	return max(order_base_2(max(size, align)), DWELL_ARENA_SHIFT) - DWELL_ARENA_SHIFT;
}

/* A block from the kernel, beyond what the arena was filled with. PREEMPT_RT allows none with interrupts off. */
static void *extra_block(struct dwell_arena *arena, size_t bytes)
{
	struct chunk *chunk = NULL;

	if (!IS_ENABLED(CONFIG_PREEMPT_RT) && !arena->is_refusing)
		/* Blocks of powers of two are aligned to their size. */
		chunk = kmalloc(roundup_pow_of_two(sizeof(*chunk) + bytes), GFP_ATOMIC | __GFP_NOWARN);
	if (!chunk) {
		arena->refused++;
		return NULL;
	}
	list_add_tail(&chunk->list, &arena->chunks);
	arena->capacity += bytes;
	arena->extra++;
	return chunk + 1;
}

void *dwell_arena_alloc(struct dwell_arena *arena, size_t size, size_t align)
{
	int class = class_of(size, align);
	size_t bytes = (size_t)1 << (class + DWELL_ARENA_SHIFT);
	void *at;

	if (class >= DWELL_ARENA_CLASSES || align > 64)
		return NULL;
	at = arena->free[class];
	if (arena->is_refusing) {
		arena->refused++;
		return NULL;
	} else if (at) {
		arena->free[class] = *(void **)at;
	} else {
		char *begin = PTR_ALIGN(arena->next, min_t(size_t, bytes, 64));

		if (arena->next && begin <= arena->end && arena->end - begin >= bytes) {
			at = begin;
			arena->next = begin + bytes;
		} else {
			at = extra_block(arena, bytes);
		}
	}
	if (at) {
		arena->used += bytes;
		arena->peak = max(arena->peak, arena->used);
	}
	return at;
}

void dwell_arena_free(struct dwell_arena *arena, void *at, size_t size, size_t align)
{
	int class = class_of(size, align);

	*(void **)at = arena->free[class];
	arena->free[class] = at;
	arena->used -= (size_t)1 << (class + DWELL_ARENA_SHIFT);
}
