/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How often each instruction on each CPU touched each cache line, and which bytes of it. */
#ifndef LINES_H
#define LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "context.h"
#include "hash.h"
#include "sequences.h"

#define LINE_BYTES 64 /* by which is counted: a line, or on POWER half of one */
#define PAIR_BYTES 128 /* two lines that some x86 CPUs fetch together, or one of POWER */

/* What one instruction did to one line on one CPU. Small: to wait for a table's memory costs most of all. */
struct line_count {
	uint64_t line; /* lines_key(): this and the next two are the key in the table */
	uint32_t insn; /* insns_number() */
	uint32_t chain; /* how the kernel got there: chains.h */
	uint64_t bytes; /* a bit for each byte of the line that was touched */
	uint32_t reads, writes;
};

#define LINE_KEY_WORDS (offsetof(struct line_count, bytes) / sizeof(uint64_t))

#define NR_LINES_ADDED 2048

/* A sequence of what one CPU did to a line. */
struct line_sequence {
	uint64_t line; /* lines_key() */
	uint64_t sequence; /* this and the line are the key in the table */
	uint64_t times;
};

/* One a CPU: no lock, no shared line. Accesses for which there was no room are in counts.lost. */
struct line_table {
	struct hash_table sequences; /* of struct line_sequence */
	struct hash_table counts; /* of struct line_count: what is not kept by sequences any more */
	/*
	 * Added, and put into the table together, in the order of their places there: that an address is found, and memory
	 * fetched, for each alone costs most of all.
	 */
	struct line_sequence *added; /* NR_LINES_ADDED; NULL: none yet */
	unsigned int nr_added;
	uint64_t accesses[NR_CONTEXTS];
};

/* Empty, and of at most so much memory: a third of it for sequences, which are short, the rest for counts. */
void lines_init(struct line_table *table, uint64_t max_bytes);

/* Lines of which somebody wants to know whether operations of several CPUs touch them. */
struct shared_lines {
	unsigned int line_bytes;
	struct hash_table table; /* of struct asked_line; zero but for max_bytes, none */
};

/* By which a line is known in a context: never 0. The bits between LINES_KEY_FREE_SHIFT and the line's number are 0. */
#define LINES_KEY_FREE_SHIFT 3

_Static_assert(NR_CONTEXTS <= 1 << (LINES_KEY_FREE_SHIFT - 1), "a context takes more bits");

static inline uint64_t lines_key(uint64_t address, enum context context)
{
	return (address & ~(uint64_t)(LINE_BYTES - 1)) | (uint64_t)context << 1 | 1;
}

/* The bits, in line_count.bytes, of an access of so many bytes (log2) as lie in the line that it begins in. */
static inline uint64_t lines_bytes(uint64_t address, unsigned int size_shift)
{
	uint64_t mask = size_shift >= 6 ? ~0ull : (1ull << (1u << size_shift)) - 1;

	return mask << (address & (LINE_BYTES - 1));
}

/* How many bytes of an access of so many lie beyond the line that it begins in. */
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

/* Count by instructions what is known by sequences: their numbers are not kept. */
void lines_expand(struct line_table *table);

/* A count as it is written: there may be millions, and as text they would take longer to write than to count. */
struct line_row {
	uint64_t line, pc, bytes;
	uint32_t chain, reads, writes;
	uint16_t cpu, context;
};

/*
 * Once: expand and write, as rows, the counts of the lines of so many bytes that two or more tables touched and at least one
 * wrote; also those of both lines of a pair that did so only together.
 * `is_stack` says whether a line lies on a task's stack: those are left out and counted in *stack_accesses. Returns 0
 * or -1.
 */
int lines_write_shared(FILE *out, struct line_table *const *tables, unsigned int nr_tables, unsigned int line_bytes,
		       bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS]);

/* Of the same, as CSV with `test` before each, what operations did to lines that are no stack's; and begin anew. */
int lines_write_test(FILE *out, uint64_t test, struct line_table *const *tables, unsigned int nr_tables,
		     unsigned int line_bytes, bool (*is_stack)(uint64_t address));
void lines_clear(struct line_table *table);

/* Ask after the line of an address; the answer for all, of what is in the tables; and one line's: is one of them written? */
void lines_ask(struct shared_lines *lines, uint64_t address);
void lines_answer(struct shared_lines *lines, struct line_table *const *tables, unsigned int nr_tables);
bool lines_is_shared(const struct shared_lines *lines, uint64_t address);
void lines_forget(struct shared_lines *lines);

#endif
