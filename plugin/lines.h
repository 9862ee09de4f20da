/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How often each instruction on each CPU touched each cache line, and which bytes of it. */
#ifndef LINES_H
#define LINES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define LINE_BYTES 64 /* POWER's lines of 128 bytes are joined when the result is read */

/* On whose behalf the kernel runs: a line's accesses are counted for each apart. */
enum context {
	CONTEXT_OPERATION, /* a user task's own path into the kernel */
	CONTEXT_INTERRUPT, /* interrupts, and softirqs on a stack of their own */
	CONTEXT_KTHREAD,
	CONTEXT_HARNESS, /* bigiron's own agent: not recorded */
	NR_CONTEXTS = CONTEXT_HARNESS,
};

extern const char *const context_names[NR_CONTEXTS];

/* One table a CPU: no lock, no shared line. Invariant: lost accesses are counted, never silent. */
struct line_table {
	struct line_count *counts;
	uint64_t capacity, used, limit;
	uint64_t lost;
	uint64_t accesses[NR_CONTEXTS];
};

void lines_init(struct line_table *table, uint64_t max_bytes);
void lines_free(struct line_table *table);

struct line_access {
	uint64_t address;
	uint64_t pc;
	uint32_t chain; /* how the kernel got there: chains.h */
	enum context context;
	unsigned int size_shift;
	bool store;
	bool again; /* goes on with what the access before did in this line: touches bytes, is not counted */
};

/* Returns true if this instruction touches this line for the first time on this CPU. */
bool lines_count(struct line_table *table, const struct line_access *access);
/* Forget what the access counted, and count no more of its kind: it was no memory. */
void lines_ignore(struct line_table *table, const struct line_access *access);

/*
 * Write, as CSV, the counts of the lines that two or more tables touched and at least one wrote. `is_stack` says
 * whether a line lies on a task's stack: those are left out and counted in *stack_accesses. Returns 0 or -1.
 */
int lines_write_shared(FILE *out, const struct line_table *tables, unsigned int nr_tables,
		       bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS]);

#endif
