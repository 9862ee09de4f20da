/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sees what tasks do in traced operations, and adds it to their traces (traces.h). */
#ifndef TRACE_EVENTS_H
#define TRACE_EVENTS_H

#include "arch/arch.h"
#include "cpu/cpu.h"
#include "qemu/qemu_api.h"
#include "trace/traces.h"

/* What the call of a kernel function means for a trace. */
enum trace_function {
	TRACE_NOTHING,
	TRACE_WAITS, /* waits for a lock, or wakes waiters: what it does is left out */
	TRACE_DOWNGRADES, /* the semaphore that is its first argument; the rest is as TRACE_WAITS */
	TRACE_SLEEPS,
	TRACE_YIELDS, /* calls schedule(), but does not sleep */
	TRACE_WAKES,	  /* the task that is its first argument */
	TRACE_INTERRUPTS, /* the CPUs in the mask at its first argument, and waits for them */
};

enum trace_function trace_function(const char *symbol);

/* Every call of such a function executes this instruction. */
void trace_events_watch_entry(struct qemu_plugin_insn *insn, enum trace_function function);

/* An INSN_STRING. `early`: how many instructions its block has from there on; 0: the block resumes the instruction. */
void trace_events_watch_string(struct qemu_plugin_insn *insn, size_t early);

/* Any instruction. `early` as below. */
void trace_events_watch_broadcast(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size, size_t early);

/* An instruction's place in its block, for trace_events_access(). `early` is how many the block has from there on. */
uint32_t trace_events_place(const uint8_t *bytes, size_t size, size_t early);

/* This block is user code, and executes so many instructions. */
void trace_events_watch_user(struct qemu_plugin_tb *tb, size_t nr_insns);

/* This CPU's task has done an operation, and begins the next one, of that number; or has done its last. */
void trace_events_next(struct cpu *cpu, uint64_t task, uint64_t number);
void trace_events_last(struct cpu *cpu, uint64_t task);

/* To be called only while the CPU's stack has a trace: */

/* A block of so many instructions of the kernel begins. */
void trace_events_execute(struct cpu *cpu, uint64_t instructions);
/* `insn`: insns_number() of the instruction; `place`: its trace_events_place(). */
void trace_events_access(const struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t address, uint32_t insn,
			 uint32_t place);
/* The instruction fills memory. `unit`: it always fills so much. */
void trace_events_fill(struct cpu *cpu, uint32_t insn, uint64_t start, uint64_t bytes, bool unit);
void trace_events_lock_acquired(struct cpu *cpu, const struct held_lock *lock);
/* `by` is the function that acquired it; `early` as in locks_release(). */
void trace_events_lock_released(struct cpu *cpu, uint64_t lock, const struct lock_function *by, uint64_t early);
/* An exception in the kernel, and its end. */
void trace_events_exception(struct cpu *cpu);
void trace_events_exception_return(struct cpu *cpu);
/* A function on a stack that is excluded returned by the address at `sp`. */
void trace_events_returned(struct stack *stack, uint64_t sp);

#endif
