/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sequences of accesses to one line, each kept once, in a tree: a sequence is its parent and one access more.
 *
 * What the kernel does to one object it does to the next one, too, on any CPU. So counting an access mostly means to see
 * that it came next the last time, too, and one number describes all that was done to a line. The first sequences are
 * learnt whole. Later ones grow by one access each time, as LZ78 does (J. Ziv, A. Lempel 1978): where accesses follow each
 * other at random, each end of a sequence then adds at most one new sequence.
 */
#ifndef SEQUENCES_H
#define SEQUENCES_H

#include <stdbool.h>
#include <stdint.h>

/* A sequence's number; 0 is the empty one. */
typedef uint32_t sequence_id;

/* What distinguishes an access from others. */
struct access {
	/*
	 * bits 7-31	insns_number() of the instruction: access_insn()
	 * bit 6	ACCESS_PART: a part of an access to several lines
	 * bits 0-5	the first byte in the line
	 */
	uint32_t insn;
	uint32_t chain;
	/*
	 * Of a whole access, QEMU's qemu_plugin_meminfo_t. Of a part:
	 * bits 2-8	its length in bytes
	 * bit 1	it counts as a read
	 * bit 0	it counts as a write
	 */
	uint32_t meminfo_or_part;
};

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
	uint32_t accesses;    /* in all of it; the parts of an access count as one */
	uint16_t length;      /* in accesses and parts */
	bool writes;	      /* one of them writes */
};

/* The access that followed a sequence the last time, and the sequence that both make. */
struct next_access {
	struct access access;
	sequence_id sequence; /* 0: none followed yet */
};

#define FIRST_ACCESSES_SHIFT 13

extern struct sequences {
	struct sequence *all;
	struct next_access *next; /* by number, as `all`; apart, because each access reads it */
	uint32_t nr, room;
	struct next_access first[1 << FIRST_ACCESSES_SHIFT]; /* after the empty sequence: one place per hash */
} sequences;

static inline struct next_access *sequence_first(const struct access *access)
{
	uint64_t key = (uint64_t)access->insn << 32 | access->chain;

	return &sequences.first[key * 0x9e3779b97f4a7c15 >> (64 - FIRST_ACCESSES_SHIFT)];
}

/* The sequence of `before` and that access, if the access came next the last time, too; or 0. */
static inline sequence_id sequence_expected(sequence_id before, const struct access *access)
{
	const struct next_access *next = before ? &sequences.next[before] : sequence_first(access);

	bool is_expected = next->access.insn == access->insn && next->access.chain == access->chain &&
			   next->access.meminfo_or_part == access->meminfo_or_part;

	return is_expected ? next->sequence : 0;
}

/* Add any access to the sequence: *is_new if the result is a new sequence. Returns false if there is no room for that. */
bool sequence_go_on(sequence_id *sequence, const struct access *access, const struct effect *effect, bool *is_new);

/* Whether a new sequence ends there, though its line may be accessed again. */
bool sequence_ends(sequence_id added);

static inline const struct sequence *sequence_of(sequence_id id)
{
	return &sequences.all[id];
}

/* Forget all sequences: their numbers are invalid from now on. */
void sequences_forget(void);

#endif
