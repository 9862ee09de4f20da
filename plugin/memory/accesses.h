/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Counts accesses to memory by instruction, line, chain of calls and context (open_lines.h, lines.h). */
#ifndef ACCESSES_H
#define ACCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "qemu/qemu_api.h"

struct cpu;

/* Count what this instruction of the kernel does to memory. `traced`: its trace_events_place() if traces are recorded. */
void accesses_watch(struct qemu_plugin_insn *insn, enum insn_kind kind, const uint8_t *bytes, size_t size,
		    uint32_t traced);

/* Instrument the instruction after a fill, such as rep stos: reaching it ends the fill. `before`: the code before it. */
void accesses_watch_next(struct qemu_plugin_insn *next, const uint8_t *before, size_t size);

/* The same for a string instruction of the kernel or of user code. */
void accesses_watch_string(struct qemu_plugin_insn *insn);

/* A callback that counts an access of any other instruction: its userdata is the instruction's accesses_site(). */
void accesses_count(unsigned int nr, qemu_plugin_meminfo_t info, uint64_t address, void *site);
void *accesses_site(const struct qemu_plugin_insn *insn);

/* What this CPU does next is another operation: an unfinished string access is counted for the last one. */
void accesses_next_operation(struct cpu *cpu);

/* Move all counts to the CPUs' tables. Unfinished string accesses are counted as far as they got. */
void accesses_flush(void);

/* All translated code was thrown away. */
void accesses_free(void);

#endif
