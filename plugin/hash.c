// SPDX-License-Identifier: GPL-2.0-or-later
#include "hash.h"

#include <sys/mman.h>

#define FIRST_CAPACITY 4096

/* Whole pages, and huge ones where there are: to find an address takes time too. */
static char *allocate(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

static void double_capacity(struct hash_table *table, const struct hash_type *type)
{
	struct hash_table bigger = *table;
	const char *entry;

	bigger.capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY;
	/* The old memory is there beside the new. */
	if (table->capacity && (table->capacity + bigger.capacity) * type->entry_bytes > table->max_bytes)
		return;
	bigger.entries = allocate(bigger.capacity * type->entry_bytes);
	if (!bigger.entries)
		return;
	hash_for_each(entry, table, type) {
		uint64_t home = hash((const hash_word *)entry, type->key_words);

		memcpy(hash_place(&bigger, type, entry, home), entry, type->entry_bytes);
	}
	hash_free(table, type);
	table->entries = bigger.entries;
	table->capacity = bigger.capacity;
	table->used = bigger.used;
}

bool hash_grow(struct hash_table *table, const struct hash_type *type)
{
	/* Half full, searches are short; full, they would not end. */
	if (table->used * 2 >= table->capacity)
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
