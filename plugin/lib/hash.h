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

/* The type of a table's entries: a constant, so that the compiler knows it at each lookup. */
struct hash_type {
	size_t entry_bytes;
	size_t key_words;
};

/* An empty table is zero but for max_bytes. */
struct hash_table {
	char *entries;
	uint64_t capacity; /* a power of two; 0: no memory yet */
	uint64_t used;
	uint64_t lost;
	uint64_t max_bytes; /* of memory, but for a small first one */
};

/* Make room for one entry more. Returns whether there is. */
bool hash_grow(struct hash_table *table, const struct hash_type *type);

void hash_free(struct hash_table *table, const struct hash_type *type);
/* Remove all entries, but keep the memory and the count of what was lost. */
void hash_clear(struct hash_table *table, const struct hash_type *type);

/* A word of a key, which may be two fields of half the size. */
typedef uint64_t __attribute__((may_alias)) hash_word;

/* Of at most three words. The products are independent: if the entry is cached, they take most of a lookup. */
static inline uint64_t hash(const hash_word *words, size_t nr)
{
	static const uint64_t factors[] = { 0xbf58476d1ce4e5b9, 0x94d049bb133111eb, 0x9e3779b97f4a7c15 };
	uint64_t sum = 0;

	for (size_t word = 0; word < nr; word++)
		sum += (words[word] ^ words[word] >> 32) * factors[word % 3];
	return sum ^ sum >> 32;
}

static inline bool hash_is_used(const void *entry)
{
	return *(const hash_word *)entry;
}

static inline bool hash_has_key(const struct hash_type *type, const hash_word *entry, const hash_word *key)
{
	for (size_t word = 0; word < type->key_words; word++)
		if (entry[word] != key[word])
			return false;
	return true;
}

/* Where the search for a key of that hash begins. */
static inline char *hash_home(const struct hash_table *table, const struct hash_type *type, uint64_t hash)
{
	return table->entries + (hash & (table->capacity - 1)) * type->entry_bytes;
}

/* The key's entry, or the unused one where it belongs. There is always one that is unused. */
static inline char *hash_place(const struct hash_table *table, const struct hash_type *type, const void *key,
			       uint64_t hash)
{
	const char *end = table->entries + table->capacity * type->entry_bytes;
	char *entry = hash_home(table, type, hash);

	while (hash_is_used(entry) && !hash_has_key(type, (const hash_word *)entry, key)) {
		entry += type->entry_bytes;
		if (entry == end)
			entry = table->entries;
	}
	return entry;
}

/* The entry of that key, or NULL. */
static inline void *hash_find(const struct hash_table *table, const struct hash_type *type, const void *key)
{
	char *entry = table->capacity ? hash_place(table, type, key, hash(key, type->key_words)) : NULL;

	return entry && hash_is_used(entry) ? entry : NULL;
}

/* The same as hash_add() for a caller that has the key's hash(). */
static inline void *hash_add_hashed(struct hash_table *table, const struct hash_type *type, const void *key,
				    uint64_t hash, uint64_t weight)
{
	char *entry = table->capacity ? hash_place(table, type, key, hash) : NULL;

	if (entry && hash_is_used(entry))
		return entry;
	/* A key of 0 could not be told from an unused entry. */
	if (!hash_is_used(key) || !hash_grow(table, type)) {
		table->lost += weight;
		return NULL;
	}
	entry = hash_place(table, type, key, hash);
	memcpy(entry, key, type->key_words * sizeof(uint64_t));
	table->used++;
	return entry;
}

/* The entry of that key, all zero but for its key if it is new. NULL where there is no room: `weight` is lost. */
static inline void *hash_add(struct hash_table *table, const struct hash_type *type, const void *key, uint64_t weight)
{
	return hash_add_hashed(table, type, key, hash(key, type->key_words), weight);
}

/*
 * Prefetch the entry of that hash, most of which lies in one cache line of the host. Always inline: gcc takes a function
 * that only prefetches for one without effect, and omits its calls.
 */
static inline __attribute__((always_inline)) void hash_prefetch(const struct hash_table *table,
								const struct hash_type *type, uint64_t hash)
{
	if (table->capacity)
		__builtin_prefetch(hash_home(table, type, hash), 1);
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
