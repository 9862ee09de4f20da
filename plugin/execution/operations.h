/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tasks' operations. Each task counts its own in its slot in user memory. A task is recorded from its first count
 * on, until it has done as many operations as the agent asked for.
 */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cpu/cpu.h"
#include "qemu/qemu_api.h"

/* There is a new request (request.h), and no task has counted yet. */
void operations_arm(void);

/* What a task's store to its slot means. */
struct counted_operation {
	struct cpu *cpu;    /* on which the task is recorded */
	uint64_t task;
	uint64_t number;    /* of the operation that begins: 0 is the first that is recorded */
	bool begins;	    /* the count has changed */
	bool is_recorded;   /* the task has not done all of its operations */
};

/* A task stores to its slot. */
struct counted_operation operations_count(qemu_plugin_meminfo_t info, uint64_t address);

/* From now on no task is recorded. */
void operations_stop(void);

/* Write how many operations of each task were recorded, as a JSON list. */
void operations_write(FILE *out);

#endif
