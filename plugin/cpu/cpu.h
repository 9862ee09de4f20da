/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest's CPUs: which one runs, and what the recorder knows of each. */
#ifndef CPU_H
#define CPU_H

#include <stdbool.h>
#include <stdint.h>

#include "cache_lines/lines.h"
#include "cache_lines/open_lines.h"
#include "counts/instructions.h"
#include "counts/locks.h"
#include "cpu/contexts.h"
#include "cpu/exclusive.h"
#include "cpu/string_access.h"
#include "qemu/qemu_api.h"

/* One part per module: only that module changes it, and the module that sees what happens (control_flow.c, accesses.c). */
struct cpu {
	void *state; /* QEMU's; NULL: not known yet */
	unsigned int recording; /* tasks on this CPU in their recorded operations (operations.h); a program (program.h) */
	uint64_t user_instructions; /* of a program, in user mode */
	int64_t window_left; /* instructions until a program's next window, if no other CPU is faster */
	struct contexts_of_cpu contexts;
	struct open_lines open_lines;
	struct exclusive exclusive;
	struct string_access strings[2]; /* of the string instructions that run: their loads, their stores */
	struct line_table lines;
	struct line_table shared_lines; /* of a program, in the windows that have ended */
	struct instruction_table instructions;
	struct locks_of_cpu locks;
};

extern struct cpus {
	struct cpu *all;
	unsigned int nr;
	void *running; /* QEMU's state of the CPU that ran last */
	struct cpu *cpu; /* the same */
	/* Each CPU's table, by number. */
	struct line_table **line_tables, **shared_line_tables;
	struct instruction_table **instruction_tables;
	struct lock_table **lock_tables;
} cpus;

void cpus_init(unsigned int nr);

/* Whether this thread, which is about to run a CPU, is the one that runs all others. Nothing here is locked. */
bool cpus_have_one_thread(void);

struct cpu *find_cpu(void *state);

/* QEMU's state of the CPU whose turn is next. */
void *next_cpu_state(void);

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
	return cpu->recording && cpu->contexts.context != CONTEXT_HARNESS;
}

#define for_each_cpu(cpu) for (struct cpu *cpu = cpus.all; cpu < cpus.all + cpus.nr; cpu++)

#endif
