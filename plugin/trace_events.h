/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sees what the tasks do whose operations are traced, and tells traces.h of it. */
#ifndef TRACE_EVENTS_H
#define TRACE_EVENTS_H

#include "arch.h"
#include "cpu.h"
#include "qemu_api.h"

/* What calls of a function of the kernel's mean for a trace. */
enum trace_function {
	TRACE_NOTHING,
	TRACE_WAITS, /* for a lock, or for who waits for one: what is done in it is left out */
	TRACE_DOWNGRADES, /* the semaphore that is its first argument; the rest is as TRACE_WAITS */
	TRACE_SLEEPS,
	TRACE_WAKES,	  /* the task that is its first argument */
	TRACE_INTERRUPTS, /* the CPUs of the mask to which its first argument points, and waits for them */
};

enum trace_function trace_function(const char *symbol);

/* This instruction is where calls of such a function come by. */
void trace_events_watch_entry(struct qemu_plugin_insn *insn, enum trace_function function);

/* An INSN_STRING in a block, in which there are so many from there on; 0: the block only goes on with it. */
void trace_events_watch_string(struct qemu_plugin_insn *insn, size_t early);

/* What trace_events_access() wants to know of an instruction in a block, in which there are so many from there on. */
uint32_t trace_events_place(const uint8_t *bytes, size_t size, size_t early);

/* This block is user code. */
void trace_events_watch_user(struct qemu_plugin_tb *tb);

/* This CPU's task has done an operation that may have been traced, and begins that of this number; or no more. */
void trace_events_next(struct cpu *cpu, uint64_t task, uint64_t number);
void trace_events_last(struct cpu *cpu, uint64_t task);

/* All traces are going to be forgotten: also those of tasks that were not done. */
void trace_events_forget(void);

/* Of these there is something to tell only while the CPU's stack has a trace. */

/* So many instructions of the kernel, which are executed together, begin. */
void trace_events_execute(struct cpu *cpu, uint64_t instructions);
/* By the instruction with that number of insns.h, and trace_events_place() of it. */
void trace_events_access(const struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t address, uint32_t insn,
			 uint32_t place);
/* The instruction fills so much memory. */
void trace_events_fill(struct cpu *cpu, uint32_t insn, uint64_t start, uint64_t bytes);
void trace_events_taken(struct cpu *cpu, const struct held_lock *lock);
/* `by` is what took it; `early` as in locks_release(). */
void trace_events_given(struct cpu *cpu, uint64_t lock, const struct lock_function *by, uint64_t early);
/* An exception that comes in the kernel, and its end. */
void trace_events_exception(struct cpu *cpu);
void trace_events_exception_return(struct cpu *cpu);
/* A function returned by the address at `sp`, while one waits. */
void trace_events_returned(struct stack *stack, uint64_t sp);

#endif
