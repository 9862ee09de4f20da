/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sees the calls of the kernel's lock functions, and tells locks.h of them. */
#ifndef LOCK_CALLS_H
#define LOCK_CALLS_H

#include "cpu.h"
#include "qemu_api.h"

/* This instruction is where calls of a lock function come by. */
void lock_calls_watch_entry(struct qemu_plugin_insn *insn, const struct lock_function *function);

/* An instruction of a block, in which there are so many from there on. */
void lock_calls_watch(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size, size_t early);

/* So many instructions, which are executed together, begin. */
static inline void lock_calls_execute(struct cpu *cpu, uint64_t instructions)
{
	locks_execute(&cpu->locks, cpu->context, instructions);
	locks_execute(&cpu->stack->locks, cpu->context, instructions);
}

/* A function returned by the address at `sp`, and one that takes a lock runs on this stack. */
void lock_calls_returned(struct cpu *cpu, uint64_t sp);

/* The stack's task, or the CPU, can hold no lock any more. */
void lock_calls_forget_task(struct cpu *cpu, struct stack *stack);
void lock_calls_forget_cpu(struct cpu *cpu);

#endif
