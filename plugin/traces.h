/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What sampled operations of each task do, in order. Of a sampled operation all accesses are kept: which lines other
 * CPUs touch too is known at the end only, and the rest is left out then.
 */
#ifndef TRACES_H
#define TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lines.h"
#include "locks.h"

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
};

struct trace_event {
	uint64_t address; /* of what is accessed or taken, or of the task that is woken */
	const struct lock_function *by;
	enum trace_kind kind;
	uint32_t insn;	       /* insns_number(): what did it, or, of a lock, called the function that did */
	uint32_t bytes;	       /* that were touched; how many CPUs were interrupted */
	uint32_t instructions; /* since the event before */
};

#define NO_COPY ((size_t)-1)

/* One a task. Invariant: before `begun` are whole operations only, each after its TRACE_OPERATION. */
struct trace {
	struct trace_event *events;
	size_t nr, room;
	size_t begun;	    /* where the operation that is traced begins */
	size_t longest;	    /* events of an operation so far */
	bool tracing, full; /* an operation; and there was no room for all of it */
	uint64_t executed, told; /* instructions of the operation; of these, before its last event */
	unsigned int depth; /* entries into the kernel that it has not left */
	uint64_t stack;	    /* the task's, by its base */
	/* An instruction that repeats accesses: where its copy is noted, and the lines that it was at. */
	struct {
		uint32_t insn;
		size_t copy;
		uint64_t lines[2];
	} string;
	uint64_t operations, left_out, cut; /* that are here whole; that found no room; that were lost sight of */
};

/* So many tasks are going to do so many operations each. What was traced before is forgotten. */
void traces_arm(uint64_t nr_tasks, uint64_t operations);

/* A task begins the operation of that number: its trace if this is one of the sample, and there is room; or NULL. */
struct trace *traces_begin(uint64_t task, uint64_t number, uint64_t stack);
/* The task has done what it began, of which all was seen or not. */
void traces_end(uint64_t task, bool all_seen);

/* An event, of which `early` of the instructions before are counted already that have not been executed yet. */
void traces_add(struct trace *trace, struct trace_event event, uint64_t early);

/*
 * Write, as CSV, all events but accesses to lines that one CPU alone touches in operations, or that none writes: for
 * that, all accesses of each CPU are in its table. Returns 0 or -1.
 */
int traces_write(FILE *out, struct line_table *const *tables, unsigned int nr_tables, unsigned int line_bytes);

/* Accesses that were not written, as there was no room to find out whether several CPUs touch their lines. */
uint64_t traces_lost(void);

/* Write, as JSON, a list with each task's stack, and how many operations are traced, left out, cut. */
void traces_write_summary(FILE *out);

static inline void traces_execute(struct trace *trace, uint64_t instructions)
{
	trace->executed += instructions;
}

#endif
