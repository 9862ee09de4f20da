// SPDX-License-Identifier: GPL-2.0-or-later
#include "hash.h"

#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 4096

struct hash_table hash_table(size_t entry_bytes, unsigned int key_words, uint64_t max_bytes)
{
	uint64_t max_capacity = FIRST_CAPACITY;

	/* Growing needs the old memory beside the new. */
	while (max_capacity * 2 * entry_bytes * 3 / 2 <= max_bytes)
		max_capacity *= 2;
	return (struct hash_table){
		.entry_bytes = entry_bytes,
		.key_words = key_words,
		.max_capacity = max_capacity,
	};
}

static inline uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * 0xbf58476d1ce4e5b9;
	return hash ^ hash >> 32;
}

uint64_t hash(uint64_t word)
{
	return mix(0, word);
}

static inline uint64_t hash_key(const struct hash_table *table, const uint64_t *key)
{
	uint64_t hash = 0;

	for (unsigned int word = 0; word < table->key_words; word++)
		hash = mix(hash, key[word]);
	return hash;
}

static inline bool is_used(const void *entry)
{
	return *(const uint64_t *)entry;
}

static inline bool has_key(const struct hash_table *table, const char *entry, const uint64_t *key)
{
	for (unsigned int word = 0; word < table->key_words; word++)
		if (((const uint64_t *)entry)[word] != key[word])
			return false;
	return true;
}

/* Where the key's search begins. */
static inline char *home(const struct hash_table *table, const uint64_t *key)
{
	return table->entries + (hash_key(table, key) & (table->capacity - 1)) * table->entry_bytes;
}

/* The key's entry, or the unused one where it belongs. There is always one that is unused. */
static inline char *place(const struct hash_table *table, const uint64_t *key)
{
	const char *end = table->entries + table->capacity * table->entry_bytes;
	char *entry = home(table, key);

	while (is_used(entry) && !has_key(table, entry, key)) {
		entry += table->entry_bytes;
		if (entry == end)
			entry = table->entries;
	}
	return entry;
}

/* Whole pages, and huge ones where there are: to find an address takes time too. */
static char *allocate(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, bytes, MADV_HUGEPAGE);
	return memory;
}

static void grow(struct hash_table *table)
{
	struct hash_table bigger = *table;
	const char *entry;

	bigger.capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY;
	if (bigger.capacity > table->max_capacity)
		return;
	bigger.entries = allocate(bigger.capacity * table->entry_bytes);
	if (!bigger.entries)
		return;
	hash_for_each(entry, table)
		memcpy(place(&bigger, (const uint64_t *)entry), entry, table->entry_bytes);
	hash_free(table);
	*table = bigger;
}

void *hash_add(struct hash_table *table, const void *key, uint64_t weight)
{
	char *entry = table->capacity ? place(table, key) : NULL;

	if (entry && is_used(entry))
		return entry;
	if (!is_used(key)) { /* it could not be told from an entry that is unused */
		table->lost += weight;
		return NULL;
	}
	/* Half full, searches are short; full, they would not end. */
	if (table->used * 2 >= table->capacity) {
		grow(table);
		if (table->used * 4 >= table->capacity * 3) {
			table->lost += weight;
			return NULL;
		}
		entry = place(table, key);
	}
	memcpy(entry, key, table->key_words * sizeof(uint64_t));
	table->used++;
	return entry;
}

void *hash_find(const struct hash_table *table, const void *key)
{
	char *entry = table->capacity ? place(table, key) : NULL;

	return entry && is_used(entry) ? entry : NULL;
}

void hash_prefetch(const struct hash_table *table, const void *key)
{
	const char *entry;

	if (!table->capacity)
		return;
	entry = home(table, key);
	/* It may lie across two lines, or its place be taken. */
	__builtin_prefetch(entry, 1);
	__builtin_prefetch(entry + 64, 1);
}

void *hash_next(const struct hash_table *table, const void *entry)
{
	const char *end = table->entries + table->capacity * table->entry_bytes;
	char *next = entry ? (char *)entry + table->entry_bytes : table->entries;

	while (next < end && !is_used(next))
		next += table->entry_bytes;
	return next < end ? next : NULL;
}

void hash_free(struct hash_table *table)
{
	if (table->entries)
		munmap(table->entries, table->capacity * table->entry_bytes);
	table->entries = NULL;
	table->capacity = table->used = 0;
}
