/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sees the calls of the kernel's lock functions: locks.h keeps what they acquire and release. */
#ifndef LOCK_CALLS_H
#define LOCK_CALLS_H

#include "cpu/cpu.h"
#include "qemu/qemu_api.h"

/* Every call of a lock function executes this instruction. */
void lock_calls_watch_entry(struct qemu_plugin_insn *insn, const struct lock_function *function);

/* An instruction of a block; `early` is how many instructions the block has from there on. */
void lock_calls_watch(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size, size_t early);

/* A block of so many instructions begins. */
static inline void lock_calls_execute(struct cpu *cpu, uint64_t instructions)
{
	locks_execute(&cpu->locks.owner, cpu->contexts.context, instructions);
	locks_execute(&cpu->contexts.stack->locks, cpu->contexts.context, instructions);
}

/* A function returned by the address at `sp`. To be called only while the CPU's stack acquires locks. */
void lock_calls_returned(struct cpu *cpu, uint64_t sp);

/* The stack's task, or the CPU, holds no lock any more. */
void lock_calls_forget_task(struct cpu *cpu, struct stack *stack);
void lock_calls_forget_cpu(struct cpu *cpu);

#endif
