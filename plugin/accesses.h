/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts accesses to memory by the instruction, the line, the chain of calls and the context (open_lines.h, lines.h). */
#ifndef ACCESSES_H
#define ACCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch.h"
#include "qemu_api.h"

struct cpu;

/* Count what this instruction of the kernel's does to memory. `traced`: its trace_events_place(), where that is recorded. */
void accesses_watch(struct qemu_plugin_insn *insn, enum insn_kind kind, const uint8_t *bytes, size_t size,
		    uint32_t traced);

/* An instruction after this one, of which so many bytes come before: it may end what that one did. */
void accesses_watch_next(struct qemu_plugin_insn *next, const uint8_t *before, size_t size);

/* Count what this instruction of user code does to memory, and see a task count its operations. */
void accesses_watch_user(struct qemu_plugin_insn *insn, enum insn_kind kind);

/* Whether a recorded access to the kernel's memory is to a device's registers. */
bool accesses_is_device(qemu_plugin_meminfo_t info, uint64_t address);

/* What a string instruction has done on this CPU is counted; what it does next is another access. */
void accesses_end_strings(struct cpu *cpu);

/* All that was counted goes to the CPUs' tables, and strings that are not over are cut. */
void accesses_flush(void);

/* All translated code was thrown away. */
void accesses_free(void);

#endif
