/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorder's one hash table: open addressing, entries of any struct that begins with its key. A key is one or more
 * 64-bit words, of which the first is not 0. A table begins without memory, grows as it must, and is bounded.
 *
 * Invariant: an entry is there, or its weight is in `lost`.
 */
#ifndef HASH_H
#define HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Of the entries of a table: a constant, for the compiler to know it where it looks one up. */
struct hash_type {
	size_t entry_bytes;
	size_t key_words;
};

/* All zero but for max_bytes, it is empty. */
struct hash_table {
	char *entries;
	uint64_t capacity; /* a power of two; 0: no memory yet */
	uint64_t used;
	uint64_t lost;
	uint64_t max_bytes; /* of memory, while it grows too, but for a small first one */
};

/* Make room for one entry more. Returns whether there is. */
bool hash_grow(struct hash_table *table, const struct hash_type *type);

void hash_free(struct hash_table *table, const struct hash_type *type);

/* Of words; of one, for who divides keys into parts. */
static inline uint64_t hash(const uint64_t *words, size_t nr)
{
	uint64_t hash = 0;

	for (size_t word = 0; word < nr; word++) {
		hash = (hash ^ words[word]) * 0xbf58476d1ce4e5b9;
		hash ^= hash >> 32;
	}
	return hash;
}

static inline bool hash_is_used(const void *entry)
{
	return *(const uint64_t *)entry;
}

static inline bool hash_has_key(const struct hash_type *type, const uint64_t *entry, const uint64_t *key)
{
	for (size_t word = 0; word < type->key_words; word++)
		if (entry[word] != key[word])
			return false;
	return true;
}

/* Where the search for a key begins. */
static inline char *hash_home(const struct hash_table *table, const struct hash_type *type, const void *key)
{
	return table->entries + (hash(key, type->key_words) & (table->capacity - 1)) * type->entry_bytes;
}

/* The key's entry, or the unused one where it belongs. There is always one that is unused. */
static inline char *hash_place(const struct hash_table *table, const struct hash_type *type, const void *key)
{
	const char *end = table->entries + table->capacity * type->entry_bytes;
	char *entry = hash_home(table, type, key);

	while (hash_is_used(entry) && !hash_has_key(type, (const uint64_t *)entry, key)) {
		entry += type->entry_bytes;
		if (entry == end)
			entry = table->entries;
	}
	return entry;
}

/* The entry of that key, or NULL. */
static inline void *hash_find(const struct hash_table *table, const struct hash_type *type, const void *key)
{
	char *entry = table->capacity ? hash_place(table, type, key) : NULL;

	return entry && hash_is_used(entry) ? entry : NULL;
}

/* The entry of that key, all zero but for its key if it is new. NULL where there is no room: `weight` is lost. */
static inline void *hash_add(struct hash_table *table, const struct hash_type *type, const void *key, uint64_t weight)
{
	char *entry = table->capacity ? hash_place(table, type, key) : NULL;

	if (entry && hash_is_used(entry))
		return entry;
	/* A key of 0 could not be told from an unused entry. */
	if (!hash_is_used(key) || !hash_grow(table, type)) {
		table->lost += weight;
		return NULL;
	}
	entry = hash_place(table, type, key);
	memcpy(entry, key, type->key_words * sizeof(uint64_t));
	table->used++;
	return entry;
}

/*
 * An entry of that key is on its way from memory: who looks for it soon does not wait so long. Always inline: gcc takes a
 * function that does no more than this for one without effect, and leaves out its calls.
 */
static inline __attribute__((always_inline)) void hash_prefetch(const struct hash_table *table,
								const struct hash_type *type, const void *key)
{
	const char *entry;

	if (!table->capacity)
		return;
	entry = hash_home(table, type, key);
	/* It may lie across two lines, or its place be taken. */
	__builtin_prefetch(entry, 1);
	__builtin_prefetch(entry + 64, 1);
}

/* The entry after that one, in no order; the first after NULL, and NULL after the last. */
static inline void *hash_next(const struct hash_table *table, const struct hash_type *type, const void *entry)
{
	const char *end = table->entries + table->capacity * type->entry_bytes;
	char *next = entry ? (char *)entry + type->entry_bytes : table->entries;

	while (next < end && !hash_is_used(next))
		next += type->entry_bytes;
	return next < end ? next : NULL;
}

#define hash_for_each(entry, table, type) for ((entry) = NULL; ((entry) = hash_next((table), (type), (entry)));)

#endif
