/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sees calls of the kernel's allocators: allocations.h keeps what they return. */
#ifndef ALLOCATORS_H
#define ALLOCATORS_H

#include "arch/arch.h"
#include "cpu/cpu.h"
#include "qemu/qemu_api.h"

/* ENTRY_ALLOC or ENTRY_ALLOC_BULK, or ENTRY_NONE for what is no allocator. */
enum entry_kind allocator_kind(const char *symbol);

/* Every call of an allocator executes this instruction. */
void allocators_watch_entry(struct qemu_plugin_insn *insn, enum entry_kind kind);

/* A function returned by the address at `sp`. To be called only while the CPU's stack has allocations. */
void allocators_returned(struct cpu *cpu, uint64_t sp);

/* How many allocated objects are not recorded. */
uint64_t allocators_lost(void);

#endif
