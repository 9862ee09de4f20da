// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE /* mremap() */
#include "lib/hash.h"

#include <sys/mman.h>

#include "lib/xalloc.h"

#define FIRST_CAPACITY 4096
#define HUGE_PAGE (2ul << 20) /* of x86-64 and others; elsewhere only an alignment */

/* Reserve so many bytes of addresses, aligned to a huge page. */
static char *reserve(size_t bytes)
{
	char *from = mmap(NULL, bytes + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	size_t before;

	if (from == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)from % HUGE_PAGE;
	if (before)
		munmap(from, before);
	munmap(from + before + bytes, HUGE_PAGE - before);
	return from + before;
}

static void *get_memory(char *at, size_t bytes)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0);
	void *memory = mmap(at, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);

	if (memory != MAP_FAILED)
		madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

/*
 * Memory in huge pages from the beginning, where there are any: the TLB misses of a lookup take longer than all else.
 * mremap() keeps small pages small, so a small table is copied.
 */
static char *resize_huge(char *entries, size_t from, size_t to)
{
	char *room = reserve(to);
	void *memory;

	if (!room)
		return NULL;
	if (from >= HUGE_PAGE)
		memory = mremap(entries, from, to, MREMAP_MAYMOVE | MREMAP_FIXED, room);
	else
		memory = get_memory(room, to);
	if (memory == MAP_FAILED) {
		munmap(room, to);
		return NULL;
	}
	if (from && from < HUGE_PAGE) {
		memcpy(memory, entries, from);
		munmap(entries, from);
	}
	return memory;
}

/* Whole pages: their contents move with them. */
static char *resize(char *entries, size_t from, size_t to)
{
	void *memory;

	if (to >= HUGE_PAGE)
		return resize_huge(entries, from, to);
	memory = from ? mremap(entries, from, to, MREMAP_MAYMOVE) : get_memory(NULL, to);
	return memory == MAP_FAILED ? NULL : memory;
}

/* Insert the entry again. It moves only to an earlier free slot of its probe sequence. */
static void put_back(const struct hash_table *table, const struct hash_type *type, char *entry)
{
	char *place = hash_place(table, type, entry, hash((const hash_word *)entry, type->key_words));

	if (place == entry)
		return;
	memcpy(place, entry, type->entry_bytes);
	memset(entry, 0, type->entry_bytes);
}

/*
 * The second half of the capacity is new. The home of an entry is where it was, or at the same offset in the second half.
 * Entries behind an unused place are put back in their order: none then moves past one that is not put back yet. Entries
 * before the first unused place may have wrapped around from the end: they are put aside first.
 */
static void spread(const struct hash_table *table, const struct hash_type *type)
{
	const char *middle = table->entries + table->capacity / 2 * type->entry_bytes;
	char *entry = table->entries, *aside;
	size_t bytes;

	while (hash_is_used(entry))
		entry += type->entry_bytes;
	bytes = entry - table->entries;
	aside = xcalloc(1, bytes);
	memcpy(aside, table->entries, bytes);
	memset(table->entries, 0, bytes);
	for (; entry < middle; entry += type->entry_bytes)
		if (hash_is_used(entry))
			put_back(table, type, entry);
	for (entry = aside; entry < aside + bytes; entry += type->entry_bytes)
		put_back(table, type, entry);
	free(aside);
}

static void double_capacity(struct hash_table *table, const struct hash_type *type)
{
	uint64_t capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY;
	char *entries;

	if (table->capacity && capacity * type->entry_bytes > table->max_bytes)
		return;
	entries = resize(table->entries, table->capacity * type->entry_bytes, capacity * type->entry_bytes);
	if (!entries)
		return;
	table->entries = entries;
	table->capacity = capacity;
	if (table->used)
		spread(table, type);
}

bool hash_grow(struct hash_table *table, const struct hash_type *type)
{
	/* At two thirds, searches are short, and new memory is expensive. A full table's searches would not end. */
	if (table->used * 3 >= table->capacity * 2)
		double_capacity(table, type);
	return table->used * 4 < table->capacity * 3;
}

void hash_clear(struct hash_table *table, const struct hash_type *type)
{
	if (table->used)
		memset(table->entries, 0, table->capacity * type->entry_bytes);
	table->used = 0;
}

void hash_free(struct hash_table *table, const struct hash_type *type)
{
	if (table->entries)
		munmap(table->entries, table->capacity * type->entry_bytes);
	table->entries = NULL;
	table->capacity = table->used = 0;
}
