// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache_lines/sequences.h"

#include <string.h>

#include "lib/hash.h"
#include "lib/xalloc.h"

#define FIRST_SEQUENCES 4096
#ifndef MAX_SEQUENCES /* a test has fewer */
#define MAX_SEQUENCES (1u << 20)
#define MAX_LEARNT_WHOLE (1u << 16)
#endif
#define MAX_LENGTH 64
#define NR_RECENT 4096 /* a power of two */

struct sequences sequences;

/* The sequence that `before` and an access make. These are the key: two words, the first not 0 as no instruction is 0. */
struct longer {
	sequence_id before;
	struct access access;
	uint64_t sequence;
};

static const struct hash_type longer_type = { sizeof(struct longer), 2 };
static struct hash_table longer = { .max_bytes = UINT64_MAX }; /* there are at most MAX_SEQUENCES */
static struct longer recent[NR_RECENT];			       /* one place for each hash */

static void expect(const struct longer *found)
{
	const struct next_access next = { found->access, found->sequence };

	if (found->before)
		sequences.next[found->before] = next;
	else
		*sequence_first(&found->access) = next;
}

static void make_room(void)
{
	if (sequences.nr < sequences.room)
		return;
	sequences.room = sequences.room ? sequences.room * 2 : FIRST_SEQUENCES;
	sequences.next = xrealloc(sequences.next, sequences.room * sizeof(*sequences.next));
	sequences.all = xrealloc(sequences.all, sequences.room * sizeof(*sequences.all));
	if (!sequences.nr)
		sequences.all[sequences.nr++] = (struct sequence){ 0 };
}

static sequence_id add(const struct longer *key, const struct effect *effect)
{
	const struct sequence *before;

	make_room();
	before = sequence_of(key->before);
	sequences.next[sequences.nr] = (struct next_access){ 0 };
	sequences.all[sequences.nr] = (struct sequence){
		.effect = *effect,
		.before = key->before,
		.insn = key->access.insn >> ACCESS_INSN_SHIFT,
		.chain = key->access.chain,
		.accesses = before->accesses + effect->reads + effect->writes,
		.length = before->length + 1,
		.writes = before->writes || effect->writes,
	};
	return sequences.nr++;
}

/* The entry of the key; NULL if there is no room for a new one. */
static struct longer *find(const struct longer *key, uint64_t hash)
{
	if (sequences.nr == MAX_SEQUENCES)
		return hash_find(&longer, &longer_type, key);
	return hash_add_hashed(&longer, &longer_type, key, hash, 1);
}

bool sequence_go_on(sequence_id *sequence, const struct access *access, const struct effect *effect, bool *is_new)
{
	const struct longer key = { .before = *sequence, .access = *access };
	const hash_word *words = (const hash_word *)&key;
	uint64_t key_hash = hash(words, longer_type.key_words);
	struct longer *last = &recent[key_hash % NR_RECENT];

	*is_new = false;
	if (!hash_has_key(&longer_type, (const hash_word *)last, words)) {
		struct longer *found = find(&key, key_hash);

		if (!found)
			return false;
		*is_new = !found->sequence;
		if (*is_new)
			found->sequence = add(&key, effect);
		*last = *found;
	}
	expect(last);
	*sequence = last->sequence;
	return true;
}

bool sequence_ends(sequence_id added)
{
	return added > MAX_LEARNT_WHOLE || sequence_of(added)->length >= MAX_LENGTH;
}

void sequences_forget(void)
{
	hash_clear(&longer, &longer_type);
	memset(recent, 0, sizeof(recent));
	memset(sequences.first, 0, sizeof(sequences.first));
	sequences.nr = sequences.nr ? 1 : 0; /* the empty one */
}
