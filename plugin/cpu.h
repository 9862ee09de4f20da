/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's CPUs: which one runs, and what the recorder knows of each. Only the module that is named changes it. */
#ifndef CPU_H
#define CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "chains.h"
#include "context.h"
#include "fills.h"
#include "lines.h"
#include "locks.h"
#include "open_lines.h"
#include "qemu_api.h"
#include "traces.h"
#include "work.h"

#define NR_STACKS 1024
#define MAX_NESTING 32

/*
 * A kernel stack, which stands for the task that owns it. Interrupts and exceptions nest on it; the last one is the
 * lowest bit of `interrupts`, set if it is an interrupt.
 */
struct stack {
	/* contexts.c */
	uint64_t base; /* 0: unused */
	uint32_t interrupts;
	uint8_t nesting;
	uint64_t entry_sp[MAX_NESTING]; /* where the stack pointer was at each entry, by level */
	uint32_t lost_nesting; /* entries deeper than that, which are not in `interrupts` */
	bool user;    /* was entered from user mode: a user task's */
	bool task;    /* was switched to: some task's */
	bool preempted; /* is in the scheduler because its time is up */
	uint64_t deferred; /* does what interrupts left to do, until a return with the stack pointer there; 0: does not */
	/* trace_events.c; here, as each return looks at both */
	uint64_t waiting; /* for a lock, or asleep, until a return with the stack pointer there; 0: neither */
	struct trace *trace; /* of the operation that the task does; NULL: is not traced */
	/* lock_calls.c */
	struct lock_owner locks; /* for which others sleep */
	struct lock_list acquiring;
	/* accesses.c */
	struct fill_progress fills[MAX_NESTING + 1]; /* by level of interrupts */
	/* chains.c */
	struct call_stack calls;
};

/* What a string instruction has accessed of a line, and is not counted yet. */
struct string_access {
	uint64_t line;	     /* lines_key(); 0: nothing */
	uint64_t from, next; /* where it began; what comes next, in this line or after it */
	uint32_t insn, chain;
	uint32_t info; /* what QEMU says of each element */
	uint16_t size; /* of one; 0: no element was seen yet */
	bool counted;  /* whether some of the line is: the rest is the same access */
};

struct cpu {
	void *state; /* QEMU's; NULL: not known yet */
	/* contexts.c */
	struct stack *stack; /* the one this CPU is on */
	enum context context;
	bool in_user;	      /* ran user code last */
	bool entering;	      /* came from user mode, and has not called a function yet */
	bool entering_agent;  /* the task that enters the kernel now is the agent */
	bool emergency_stack; /* is on a stack for emergencies, until the interrupt's return */
	bool switching;	      /* is about to change to another task's stack */
	uint64_t evicted_stacks, lost_entries;
	struct stack stacks[NR_STACKS];
	struct stack unknown; /* stands for the CPU's until a call or a return has shown that */
	/* operations.c */
	unsigned int recording; /* tasks on this CPU that are in their recorded operations */
	/* accesses.c */
	struct open_lines open; /* operations.c says when an operation ends */
	struct string_access string[2]; /* that runs and is recorded: loads, stores */
	struct line_table lines;
	/* blocks.c */
	struct work_table work;
	/* lock_calls.c */
	struct lock_owner locks; /* for which others spin: whatever task runs, no other CPU releases them */
	struct lock_table lock_table;
};

extern struct cpus {
	struct cpu *all;
	unsigned int nr;
	void *running; /* QEMU's state of the CPU that ran last */
	struct cpu *cpu; /* the same */
} cpus;

void cpus_init(unsigned int nr);

/* Whether this thread, which is about to run a CPU, is the one that runs all others: nothing here is locked. */
bool cpus_have_one_thread(void);

struct cpu *find_cpu(void *state);

/*
 * The CPU that runs. QEMU 10 passes a wrong number to callbacks where one thread runs all CPUs: it compiles the
 * number of the CPU that translated the code into code that all share (gen_cpu_index() in accel/tcg/plugin-gen.c).
 */
static inline struct cpu *this_cpu(void)
{
	return cpus.running == current_cpu ? cpus.cpu : find_cpu(current_cpu);
}

static inline bool is_recording(const struct cpu *cpu)
{
	return cpu->recording && cpu->context != CONTEXT_HARNESS;
}

#define for_each_cpu(cpu) for (struct cpu *cpu = cpus.all; cpu < cpus.all + cpus.nr; cpu++)

#endif
