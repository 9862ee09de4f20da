/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorded part of a program: what all CPUs execute from MARK_BEGIN to MARK_END. It may be in several parts, between
 * which code is not instrumented.
 *
 * It is divided into windows, each until some CPU has executed so many instructions. A line is shared if several CPUs touch
 * it in the same window: over a whole program's run, almost all memory has been used by several CPUs, for one thing after
 * another, and tasks have moved.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "counts/context.h"
#include "cpu/cpu.h"
#include "qemu/time_slices.h"

#define NO_SYSTEM_CALL UINT64_MAX

/* There is a new request (request.h), and no part has begun. */
void program_arm(void);

void program_next_window(void);

/* The CPU executes a block, of user code or of the kernel. */
static inline void program_execute(struct cpu *cpu, uint64_t instructions)
{
	time_slices_execute(instructions);
	cpu->window_left -= instructions;
	if (cpu->window_left <= 0)
		program_next_window();
}

/* A part of the recording begins or ends. */
void program_run(bool runs);
bool program_runs(void);

/* The kernel is entered by a system call with that number; NO_SYSTEM_CALL: by one of another kind. */
void program_count_system_call(uint64_t number);

/* Write the rows of the lines that were shared. Returns 0 or -1. */
int program_write_lines(FILE *out, uint64_t stack_accesses[NR_CONTEXTS]);

/* Write what else was counted, as a JSON object, or null if no program was recorded. */
void program_write(FILE *out);

#endif
