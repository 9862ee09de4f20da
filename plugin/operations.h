/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tasks' operations: each task counts its own in user memory, and is recorded from the first until it did enough. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../guest/recorder.h"
#include "qemu_api.h"

/* What the agent asked for last. */
extern struct recorder_arm arm;

/* Whether it can be recorded: what the agent asks for makes sense. */
bool operations_arm(const struct recorder_arm *wanted);

/* This instruction of user code may store a task's count. */
void operations_watch(struct qemu_plugin_insn *insn);

/* What it stored, for who watches the instruction itself. */
void operations_stored(qemu_plugin_meminfo_t info, uint64_t address);

/* No task is recorded any more. */
void operations_stop(void);

/* Write how many operations of each task were recorded, as JSON: a list. */
void operations_write(FILE *out);

/* Whether it is where a task counts. */
static inline bool is_operations_slot(uint64_t address)
{
	return address - arm.slots < arm.nr_slots * arm.slot_bytes;
}

#endif
