/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's allocators: their names, and what they are asked for and return (allocations.h). */
#ifndef ALLOCATORS_H
#define ALLOCATORS_H

#include "arch.h"
#include "cpu.h"
#include "qemu_api.h"

/* ENTRY_ALLOC or ENTRY_ALLOC_BULK, or ENTRY_NONE for what is no allocator. */
enum entry_kind allocator_kind(const char *symbol);

/* This instruction is where calls of an allocator come by. */
void allocators_watch_entry(struct qemu_plugin_insn *insn, enum entry_kind kind);

/* A function returned by the address at `sp`, and an allocator runs on this stack. */
void allocators_returned(struct cpu *cpu, uint64_t sp);

/* Objects that are known to have been allocated, but not by whom. */
uint64_t allocators_lost(void);

#endif
