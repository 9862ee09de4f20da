/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sequences of accesses to one line, each kept once, in a tree: a sequence is another one and one access more.
 *
 * What the kernel does to one object it does to the next one too, on whatever CPU. So to count an access it mostly
 * suffices to see that it is the one that came next the last time, and of what was done to a line one number has to be
 * kept. The first are learnt whole, later ones by one access more each time, as LZ78 does (J. Ziv, A. Lempel 1978): where
 * accesses follow each other by chance, there is then one more at most for each time that one ended.
 */
#ifndef SEQUENCES_H
#define SEQUENCES_H

#include <stdbool.h>
#include <stdint.h>

/* A sequence's number; 0 is the empty one. */
typedef uint32_t sequence_id;

/* What tells an access from others. */
struct access {
	uint32_t insn; /* access_insn() */
	uint32_t chain;
	uint32_t kind; /* as QEMU says; of a part, its length, and whether it counts as a read or a write */
};

/* The instruction: its number, and beside it where in the line it accesses it, and whether a part is meant. */
#define ACCESS_PART (1u << 6)
#define ACCESS_INSN_SHIFT 7

static inline uint32_t access_insn(uint32_t number)
{
	return number << ACCESS_INSN_SHIFT;
}

/* What an access does to a line. */
struct effect {
	uint64_t bytes; /* a bit for each that it touches */
	uint32_t reads, writes;
};

/* A sequence that is not empty. */
struct sequence {
	struct effect effect; /* of its last access */
	sequence_id before;   /* what came before that */
	uint32_t insn, chain; /* of that access; insns_number() */
	uint32_t accesses;    /* in all of it, but for those that are parts of one */
	uint16_t length;      /* with these */
	bool writes;	      /* one of them does */
};

/* What came after a sequence the last time, and the sequence that made. */
struct next_access {
	struct access access;
	sequence_id sequence; /* 0: nothing did yet */
};

#define FIRST_ACCESSES_SHIFT 13

extern struct sequences {
	struct sequence *all;
	struct next_access *next; /* by number, as `all`; apart, as each access looks there */
	uint32_t nr, room;
	struct next_access first[1 << FIRST_ACCESSES_SHIFT]; /* what may come after the empty one: a place for each hash */
} sequences;

static inline struct next_access *sequence_first(const struct access *access)
{
	uint64_t key = (uint64_t)access->insn << 32 | access->chain;

	return &sequences.first[key * 0x9e3779b97f4a7c15 >> (64 - FIRST_ACCESSES_SHIFT)];
}

/* The sequence that goes on from `before` with that access, if it is the one that came next the last time; or 0. */
static inline sequence_id sequence_expected(sequence_id before, const struct access *access)
{
	const struct next_access *next = before ? &sequences.next[before] : sequence_first(access);

	return next->access.insn == access->insn && next->access.chain == access->chain &&
			       next->access.kind == access->kind ?
		       next->sequence :
		       0;
}

/* The sequence goes on with any access, and may be a new one then. Returns false if there is no room for that. */
bool sequence_go_on(sequence_id *sequence, const struct access *access, const struct effect *effect, bool *is_new);

/* Whether a new one ends there, though more may be done to its line. */
bool sequence_ends(sequence_id added);

static inline const struct sequence *sequence_of(sequence_id id)
{
	return &sequences.all[id];
}

/* Forget all. Nobody may have the number of one. */
void sequences_forget(void);

#endif
