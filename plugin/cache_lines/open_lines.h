/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The lines that a CPU accesses, and for each the sequence of accesses since it was opened. A line is opened again in each
 * operation: operations are much the same, so the sequence is then mostly the one of the operation before.
 */
#ifndef OPEN_LINES_H
#define OPEN_LINES_H

#include <stdbool.h>
#include <stdint.h>

#include "cache_lines/lines.h"
#include "cache_lines/sequences.h"

#define OPEN_LINES_SHIFT 12 /* an operation has a few hundred lines: hardly three of them share a pair of places */
#define NR_OPEN_LINES (1u << OPEN_LINES_SHIFT)

struct open_line {
	uint64_t line; /* its key, and which operation opened it; 0: none */
	sequence_id sequence; /* 0: is not open */
	sequence_id last; /* the sequence when it was open before */
	uint32_t times;	  /* how many times in a row it was that */
};

struct open_lines {
	struct open_line places[NR_OPEN_LINES];
	uint64_t operation; /* the last bits of its number, shifted to OPERATION_MASK */
};

/* Bits that a key leaves free. Two operations with the same bits are taken for one, which does no harm. */
#define OPERATION_SHIFT LINES_KEY_FREE_SHIFT
#define OPERATION_MASK ((uint64_t)7 << OPERATION_SHIFT)

_Static_assert(OPERATION_MASK < LINE_BYTES, "the operation overlaps the line");

/* What is done on this CPU from now on is another operation. */
static inline void open_lines_next_operation(struct open_lines *lines)
{
	lines->operation = (lines->operation + (1u << OPERATION_SHIFT)) & OPERATION_MASK;
}

static inline bool open_line_is(const struct open_line *open, uint64_t key)
{
	return !((open->line ^ key) & ~OPERATION_MASK);
}

/* Where the line is, or may be. It can be in two places: the second one is returned if it is not in the first. */
static inline struct open_line *open_lines_place(struct open_lines *lines, uint64_t key)
{
	/* By Fibonacci hashing: CPUs' and objects' lines lie at regular distances. */
	struct open_line *pair = &lines->places[(key / LINE_BYTES * 0x9e3779b97f4a7c15 >> (64 - OPEN_LINES_SHIFT)) & ~1];

	return __builtin_expect(open_line_is(pair, key), true) ? pair : pair + 1;
}

/* Count the access if it came next in the line's sequence the last time, too. Returns whether it did. `key`: lines_key() */
static inline bool open_lines_expect(struct open_lines *lines, uint64_t key, const struct access *access)
{
	struct open_line *open = open_lines_place(lines, key);
	bool goes_on = open->line == (key | lines->operation);
	sequence_id next;

	if (!goes_on && (!open_line_is(open, key) || (open->sequence && open->sequence != open->last)))
		return false;
	next = sequence_expected(goes_on ? open->sequence : 0, access);
	if (!next)
		return false;
	if (!goes_on) {
		open->times += open->sequence != 0;
		open->line = key | lines->operation;
	}
	open->sequence = next;
	return true;
}

/* Count any other access. Returns false, and counts nothing, if there is no room for its sequence. */
bool open_lines_add(struct open_lines *lines, struct line_table *table, uint64_t key, const struct access *access,
		    const struct effect *effect);

/* All that was counted goes to the table. */
void open_lines_close(struct open_lines *lines, struct line_table *table);

#endif
