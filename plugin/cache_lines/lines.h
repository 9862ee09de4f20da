/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How often each instruction on each CPU touched each cache line, and which bytes of it. */
#ifndef LINES_H
#define LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cache_lines/sequences.h"
#include "counts/context.h"
#include "lib/hash.h"

#define LINE_BYTES 64 /* the unit of counting: a line, or on POWER half of one */
#define PAIR_BYTES 128 /* two lines that some x86 CPUs fetch together, or one of POWER */

/* What one instruction did to one line on one CPU. Small, as cache misses of the table cost most of all. */
struct line_count {
	uint64_t line; /* lines_key(). The key in the table: line, insn and chain */
	uint32_t insn; /* insns_number() */
	uint32_t chain; /* how the kernel got there: chains.h */
	uint64_t bytes; /* a bit for each byte of the line that was touched */
	uint32_t reads, writes;
};

#define LINE_KEY_WORDS (offsetof(struct line_count, bytes) / sizeof(uint64_t))

#define NR_LINES_ADDED 2048

/* A sequence of what one CPU did to a line. */
struct line_sequence {
	uint64_t line; /* lines_key(). The key in the table: line and sequence */
	uint64_t sequence;
	uint64_t times;
};

static const struct hash_type line_sequence_type = { sizeof(struct line_sequence), 2 };
static const struct hash_type line_count_type = { sizeof(struct line_count), LINE_KEY_WORDS };

/* One per CPU: no lock, no shared line. Accesses for which there was no room are in counts.lost. */
struct line_table {
	struct hash_table sequences; /* of struct line_sequence */
	struct hash_table counts; /* of struct line_count: what was expanded from sequences */
	/*
	 * Added, but not in the table yet. Many are put into the table at once, in the order of their places there: one at a
	 * time, the misses of the host's TLB and caches would cost more than all the rest.
	 */
	struct line_sequence *added; /* NR_LINES_ADDED; NULL: none yet */
	unsigned int nr_added;
	bool by_bytes; /* accesses of one instruction to other bytes of a line are another count */
	uint64_t accesses[NR_CONTEXTS];
};

/* Empty the table and bound its memory: a third for sequences, which are small, two thirds for counts. */
void lines_init(struct line_table *table, uint64_t max_bytes);

/* The key of a line in a context: never 0. Its bits from LINES_KEY_FREE_SHIFT up to the line's number are 0. */
#define LINES_KEY_FREE_SHIFT 3

_Static_assert(NR_CONTEXTS <= 1 << (LINES_KEY_FREE_SHIFT - 1), "a context takes more bits");

static inline uint64_t lines_key(uint64_t address, enum context context)
{
	return (address & ~(uint64_t)(LINE_BYTES - 1)) | (uint64_t)context << 1 | 1;
}

static inline uint64_t lines_address(uint64_t key)
{
	return key & ~(uint64_t)(LINE_BYTES - 1);
}

static inline enum context lines_context(uint64_t key)
{
	return key >> 1 & 3;
}

/* The bits in line_count.bytes of an access, as far as it lies in the line where it begins. */
static inline uint64_t lines_bytes(uint64_t address, unsigned int size_shift)
{
	uint64_t mask = size_shift >= 6 ? ~0ull : (1ull << (1u << size_shift)) - 1;

	return mask << (address & (LINE_BYTES - 1));
}

/* How many bytes of an access lie beyond the line where it begins. */
static inline unsigned int lines_beyond(uint64_t address, unsigned int bytes)
{
	unsigned int end = (address & (LINE_BYTES - 1)) + bytes;

	return end > LINE_BYTES ? end - LINE_BYTES : 0;
}

/* The bits of the bytes from `from` to before `end`, which lie in one line. */
static inline uint64_t lines_range(uint64_t from, uint64_t end)
{
	return ~0ull >> (LINE_BYTES - (end - from)) << (from & (LINE_BYTES - 1));
}

void lines_add(struct line_table *table, uint64_t key, sequence_id sequence, uint32_t times);
void lines_flush(struct line_table *table); /* after the last was added */

/* Expand all sequences into counts by instruction: no sequence's number is kept. */
void lines_expand(struct line_table *table);

/* A count as it is written. Binary: there may be millions, and writing text would take longer than counting. */
struct line_row {
	uint64_t line, pc, bytes;
	uint32_t chain, reads, writes;
	uint16_t cpu, context;
};

/*
 * Write the rows of all shared lines. A line has `line_bytes`. It is shared if at least two tables have it and at least
 * one of them wrote it. The two lines of a pair are shared if this holds for both together. Lines on a task's stack are
 * left out, and are counted in stack_accesses. All other lines go to `others`, which may be NULL. Destructive: expands
 * the sequences. Returns 0 or -1.
 */
int lines_write_shared(FILE *out, FILE *others, struct line_table *const *tables, unsigned int nr_tables,
		       unsigned int line_bytes, bool (*is_stack)(uint64_t address),
		       uint64_t stack_accesses[NR_CONTEXTS]);

/*
 * Move the counts of all shared lines to the tables of those to keep, and forget all others: what the same line is later
 * used for, by others, is another matter. Returns false if there is no memory to find out which are shared.
 */
bool lines_keep_shared(struct line_table *const *tables, struct line_table *const *kept, unsigned int nr_tables,
		       unsigned int line_bytes, bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS]);

/* Write the same rows as CSV, with `test` first, but only what operations did. Destructive, too. */
int lines_write_test(FILE *out, uint64_t test, struct line_table *const *tables, unsigned int nr_tables,
		     unsigned int line_bytes, bool (*is_stack)(uint64_t address));
void lines_clear(struct line_table *table);

#endif
