/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The contexts of a CPU: on which kernel stack it runs, which interrupts and exceptions nest on that stack, and on whose
 * behalf it therefore runs. control_flow.c sees what changes them.
 */
#ifndef CONTEXTS_H
#define CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

#include "counts/chains.h"
#include "counts/context.h"
#include "counts/locks.h"
#include "cpu/fills.h"

struct trace;

#define MAX_NESTING 32

/*
 * A kernel stack, which stands for the task that owns it. Interrupts and exceptions nest on it. `interrupts` has a bit
 * for each of them, set for an interrupt; the lowest bit is the last one's.
 */
struct stack {
	uint64_t base; /* 0: unused */
	uint32_t interrupts;
	uint8_t nesting;
	uint64_t entry_sp[MAX_NESTING]; /* where the stack pointer was at each entry, by level */
	uint32_t lost_nesting; /* entries beyond MAX_NESTING, which are not in `interrupts` */
	bool user;    /* a user task's: was entered from user mode */
	bool task;    /* some task's: was switched to */
	bool preempted; /* is in the scheduler because its time is up */
	uint64_t deferred; /* does deferred work until a return with the stack pointer there; 0: does none */
	/* trace_events.c; here, because each return reads both */
	uint64_t excluded_until_sp; /* waits for a lock or sleeps until a return with the stack pointer there; 0: neither */
	struct trace *trace; /* of the task's operation; NULL: is not traced */
	/* lock_calls.c */
	struct lock_owner locks; /* that a waiter sleeps for */
	struct lock_list acquiring;
	/* accesses.c */
	struct fill_progress fills[MAX_NESTING + 1]; /* by level of interrupts */
	/* chains.c; last: stacks.c clears what comes before */
	struct call_stack calls;
};

struct contexts_of_cpu {
	struct stack *stack; /* the one that the CPU is on */
	enum context context;
	bool in_user;	      /* ran user code last */
	bool entering;	      /* came from user mode, and has not called a function yet */
	bool entering_agent;  /* the task that enters the kernel now is the agent */
	bool emergency_stack; /* is on a stack for emergencies, until the interrupt's return */
	bool switching;	      /* is about to change to another task's stack */
	uint64_t lost_entries; /* interrupts and exceptions beyond MAX_NESTING */
	struct stack unknown; /* stands for the CPU's stack until a call or a return has shown it */
};

/* Recording begins: neither the CPU's stack nor its mode is known. */
void contexts_reset(struct contexts_of_cpu *contexts);

/* The agent's stack; 0: unknown. */
void contexts_set_agent_stack(uint64_t base);

/* The stack, or what is on it, has changed: find the context again. */
void contexts_update(struct contexts_of_cpu *contexts);

/* The stack has a new task, which never was in user mode: nothing is on it yet. */
void contexts_begin_task(struct contexts_of_cpu *contexts);

/* The task returned to user mode: its stack is empty. */
void contexts_enter_user(struct contexts_of_cpu *contexts);

/* An interrupt or an exception entered the kernel at `pc`, with the stack pointer at `sp`. */
void contexts_enter(struct contexts_of_cpu *contexts, uint64_t pc, uint64_t sp, bool interrupt);

/* Whether an interrupt return with the stack pointer at `sp` ends the last entry. */
bool contexts_ends_entry(const struct stack *stack, uint64_t sp);

/* The last entry has ended. */
void contexts_leave(struct contexts_of_cpu *contexts);

/* The entry from user mode that was noted for one stack turns out to be on another one. */
void contexts_move_entry(struct stack *from, struct stack *to);

#endif
