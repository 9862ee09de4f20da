/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel's symbols: where its functions are, where it is entered, switches tasks, allocates, takes locks. They come
 * from the guest in parts, and are read when kernel code is translated for the first time.
 */
#ifndef SYMBOLS_H
#define SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "arch/arch.h"
#include "counts/locks.h"
#include "trace/trace_events.h"

/*
 * A part of /proc/kallsyms in the guest's memory, to be kept in `file`, which was opened to append. A part may end in the
 * middle of a line. If one is lost, the file is empty from then on.
 */
void symbols_receive(uint64_t address, size_t length, FILE *file);

/* Read all symbols, once. To be called in the kernel: not every architecture can read its memory in user mode. */
void symbols_load(void);

/* The meaning of an instruction: ENTRY_NONE, NULL, TRACE_NOTHING for most. */
enum entry_kind symbols_entry(uint64_t pc);
const struct lock_function *symbols_lock_function(uint64_t pc);
enum trace_function symbols_trace_function(uint64_t pc);

/* The start of the function at an address; the address itself if that is not known. */
uint64_t symbols_function(uint64_t pc);

/* Whether this instruction calls a tracer. */
bool symbols_is_ftrace_call(const uint8_t *bytes, size_t size, uint64_t pc);

/* How many entry points for interrupts the kernel has. */
unsigned int symbols_nr_interrupts(void);

/* Each CPU's offset of per-CPU variables; NULL: unknown. */
const uint64_t *symbols_per_cpu_offsets(void);

struct symbols_lost {
	uint64_t parts;		 /* that could not be read, or written */
	uint64_t functions;	 /* for which there was no memory */
	uint64_t entries;	 /* entry points for which there was no room */
	uint64_t lock_functions; /* the same */
};

struct symbols_lost symbols_lost(void);

#endif
