/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorder's one hash table: open addressing, entries of any struct that begins with its key. A key is one or more
 * 64-bit words, of which the first is not 0. A table begins without memory, grows as it must, and
 * is bounded.
 *
 * Invariant: an entry is there, or its weight is in `lost`.
 */
#ifndef HASH_H
#define HASH_H

#include <stddef.h>
#include <stdint.h>

struct hash_table {
	char *entries;
	uint64_t capacity; /* a power of two; 0: no memory yet */
	uint64_t used;
	uint64_t max_capacity;
	uint64_t lost;
	uint32_t entry_bytes;
	uint32_t key_words;
};

/* A table of such entries whose memory, while it grows too, is at most so many bytes, but for a small first one. */
struct hash_table hash_table(size_t entry_bytes, unsigned int key_words, uint64_t max_bytes);

/* The entry of that key, all zero but for its key if it is new. NULL where there is no room: `weight` is lost. */
void *hash_add(struct hash_table *table, const void *key, uint64_t weight);

/* The entry of that key, or NULL. */
void *hash_find(const struct hash_table *table, const void *key);

/* An entry of that key is on its way from memory: who looks for it soon does not wait so long. */
void hash_prefetch(const struct hash_table *table, const void *key);

/* The entry after that one, in no order; the first after NULL, and NULL after the last. */
void *hash_next(const struct hash_table *table, const void *entry);

#define hash_for_each(entry, table) for ((entry) = NULL; ((entry) = hash_next((table), (entry)));)

void hash_free(struct hash_table *table);

/* Of one word, for who divides keys into parts. */
uint64_t hash(uint64_t word);

#endif
