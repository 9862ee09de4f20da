// SPDX-License-Identifier: GPL-2.0-or-later
#include "sequences.h"

#include <string.h>

#include "hash.h"
#include "xalloc.h"

#define FIRST_SEQUENCES 4096
#ifndef MAX_SEQUENCES /* a test has fewer */
#define MAX_SEQUENCES (1u << 20)
#define MAX_LEARNT_WHOLE (1u << 16)
#endif
#define MAX_ACCESSES 64
#define NR_RECENT 4096 /* a power of two */

struct sequences sequences;

/* How a sequence is found. The key is two words, of which the first is not 0, as an instruction's number is not. */
struct longer {
	sequence_id before;
	struct access access;
	uint64_t sequence;
};

static const struct hash_type longer_type = { sizeof(struct longer), 2 };
static struct hash_table longer = { .max_bytes = UINT64_MAX }; /* there are at most MAX_SEQUENCES */
static struct longer recent[NR_RECENT];			       /* one place for each hash */

void sequences_note_insn(uint32_t number)
{
	uint32_t room = sequences.nr_insns ? sequences.nr_insns : FIRST_SEQUENCES;

	while (number >= room)
		room *= 2;
	if (room == sequences.nr_insns)
		return;
	sequences.first = xrealloc(sequences.first, room * sizeof(*sequences.first));
	memset(sequences.first + sequences.nr_insns, 0, (room - sequences.nr_insns) * sizeof(*sequences.first));
	sequences.nr_insns = room;
}

static void expect(const struct longer *found)
{
	const struct next_access next = { found->access, found->sequence };

	if (found->before)
		sequences.next[found->before] = next;
	else
		sequences.first[found->access.insn >> ACCESS_INSN_SHIFT] = next;
}

sequence_id sequence_find(sequence_id before, const struct access *access)
{
	const struct longer key = { .before = before, .access = *access };
	const hash_word *words = (const hash_word *)&key;
	uint64_t key_hash = hash(words, longer_type.key_words);
	struct longer *last = &recent[key_hash % NR_RECENT];

	if (!hash_has_key(&longer_type, (const hash_word *)last, words)) {
		const struct longer *found = hash_find(&longer, &longer_type, &key);

		if (!found)
			return 0;
		*last = *found;
	}
	expect(last);
	return last->sequence;
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

sequence_id sequence_add(sequence_id before, const struct access *access, const struct effect *effect)
{
	const struct longer key = { .before = before, .access = *access };
	const struct sequence *first;
	struct longer *added;

	if (sequences.nr == MAX_SEQUENCES)
		return 0;
	added = hash_add(&longer, &longer_type, &key, 1);
	if (!added)
		return 0;
	make_room();
	first = sequence_of(before);
	sequences.next[sequences.nr] = (struct next_access){ 0 };
	sequences.all[sequences.nr] = (struct sequence){
		.effect = *effect,
		.before = before,
		.insn = access->insn >> ACCESS_INSN_SHIFT,
		.chain = access->chain,
		.accesses = first->accesses + effect->reads + effect->writes,
		.writes = first->writes || effect->writes,
	};
	added->sequence = sequences.nr++;
	expect(added);
	return added->sequence;
}

bool sequence_ends(sequence_id added)
{
	return added > MAX_LEARNT_WHOLE || sequence_of(added)->accesses > MAX_ACCESSES;
}

void sequences_forget(void)
{
	hash_clear(&longer, &longer_type);
	memset(recent, 0, sizeof(recent));
	memset(sequences.first, 0, sequences.nr_insns * sizeof(*sequences.first));
	sequences.nr = 1;
}
