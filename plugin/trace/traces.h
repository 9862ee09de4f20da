/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sampled operations of each task do, in order. All accesses of a sampled operation are kept. Only at the end is it
 * known which lines other CPUs touch, too; accesses to other lines are left out then.
 */
#ifndef TRACES_H
#define TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cache_lines/lines.h"
#include "counts/locks.h"

enum trace_kind {
	TRACE_OPERATION, /* begins: its number is in `address` */
	TRACE_ENTER,
	TRACE_EXIT,
	TRACE_READ,
	TRACE_WRITE,
	TRACE_ATOMIC,
	TRACE_LOCK,
	TRACE_UNLOCK,
	TRACE_DOWNGRADE,
	TRACE_FILL,
	TRACE_COPY,
	TRACE_SLEEP,
	TRACE_WAKE,
	TRACE_IPI,
	TRACE_TLBI, /* waits until other CPUs have invalidated what their TLBs have */
};

struct trace_event {
	uint64_t address; /* of the memory, the lock, or the task that is woken */
	const struct lock_function *by;
	enum trace_kind kind;
	uint32_t insn;	       /* insns_number(): of a lock, its function's call */
	uint32_t bytes;	       /* that were touched; of TRACE_IPI and TRACE_TLBI, the number of other CPUs */
	uint32_t instructions; /* since the event before */
};

#define NO_COPY ((size_t)-1)

/* One per task. Invariant: before `begun` are only complete operations, each after its TRACE_OPERATION. */
struct trace {
	struct trace_event *events;
	size_t nr, room;
	size_t begun;	    /* where the operation that is traced begins */
	size_t longest;	    /* events of an operation so far */
	bool tracing;	    /* an operation */
	bool full;	    /* it did not fit */
	uint64_t executed;   /* instructions of the operation so far */
	uint64_t attributed; /* of these, up to its last event: they are in its events' `instructions` */
	unsigned int depth; /* entries into the kernel that it has not left */
	uint64_t stack;	    /* the task's, by its base */
	bool broadcast;	    /* it has asked other CPUs to invalidate what their TLBs have */
	bool yields;	    /* it calls schedule() next, to let others run, not to sleep */
	/* The last instruction that fills one unit of memory at a time: its TRACE_FILL's index, and where it goes on. */
	struct {
		uint32_t insn;
		size_t fill;
		uint64_t next;
	} unit;
	/* The last string instruction: the index of its TRACE_COPY, and the lines that it loaded from and stored to last. */
	struct {
		uint32_t insn;
		size_t copy;
		uint64_t lines[2];
	} string;
	/* Sampled operations: of which all events are here, for which there was no room, whose task was lost track of. */
	uint64_t complete, dropped_no_room, dropped_untracked;
};

/* How many tasks there will be, and how many operations each does. Earlier traces are forgotten. */
void traces_arm(uint64_t nr_tasks, uint64_t operations);

/* A task begins an operation. Returns its trace; NULL if the operation is not sampled or there is no room. */
struct trace *traces_begin(uint64_t task, uint64_t number, uint64_t stack);
/* The task has done the operation that it began. `all_seen`: and was tracked all the time. */
void traces_end(uint64_t task, bool all_seen);

/* Add an event. `early` instructions of those counted so far have not been executed yet. */
void traces_add(struct trace *trace, struct trace_event event, uint64_t early);

/*
 * Write all events as CSV, but of accesses only those to shared lines: which operations on several CPUs touch, and one
 * writes. The tables have all accesses of each CPU. Returns 0 or -1.
 */
int traces_write(FILE *out, struct line_table *const *tables, unsigned int nr_tables, unsigned int line_bytes);

/* Accesses that were not written, because there was no room to look up whether their lines are shared. */
uint64_t traces_lost(void);

/* Write a JSON list: each task's stack, and how many operations are complete, dropped for room, dropped as untracked. */
void traces_write_summary(FILE *out);

static inline void traces_execute(struct trace *trace, uint64_t instructions)
{
	trace->executed += instructions;
}

#endif
