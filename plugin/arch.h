/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the recorder must know of the guest's architecture; one file an architecture implements it. */
#ifndef ARCH_H
#define ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an instruction's memory accesses mean for the recorder. */
enum insn_kind {
	INSN_OTHER,	       /* record its accesses */
	INSN_FILL,	       /* repeats a store over a range of memory */
	INSN_STRING,	       /* repeats other accesses over ranges of memory */
	INSN_STACK,	       /* addresses its own stack by the stack pointer: nothing to record */
	INSN_CALL,	       /* its store shows where the stack is */
	INSN_CALL_BY_MEMORY,   /* so does its store; its load is recorded */
	INSN_RETURN,	       /* its load shows where the stack is */
	INSN_INTERRUPT_RETURN, /* ends an interrupt or an exception */
};

/* The kernel's functions at which the recorder must know that the context changes. */
enum entry_kind {
	ENTRY_NONE,
	ENTRY_EXCEPTION,
	ENTRY_INTERRUPT,
	ENTRY_SWITCH,	 /* to another task's stack */
	ENTRY_PREEMPTED, /* a task must give up its CPU */
	ENTRY_RESUMED,	 /* and has it again */
	ENTRY_ALLOCATES,      /* a function that returns a new object */
	ENTRY_ALLOCATES_MANY, /* one that puts pointers to new objects where its fourth argument says */
};

struct arch {
	const char *target;	/* QEMU's name of it */
	uint64_t kernel_start;	/* addresses from here on are the kernel's */
	uint64_t stack_bytes;	/* size and alignment of a kernel stack */
	uint64_t no_stack_from; /* call frames in this range are on no task's stack: entry trampolines */
	uint64_t no_stack_to;
	const char *mark_registers[4]; /* of a mark: magic, mark, memory, length (guest/recorder.h) */
	const char *fill_registers[2]; /* of an INSN_FILL: where it stores next, how many elements are left */
	const char *call_registers[3]; /* of a call: its result, its first argument, its fourth */
	bool (*is_mark)(const uint8_t *bytes, size_t size);
	enum insn_kind (*classify)(const uint8_t *bytes, size_t size);
	/* How many bytes an element of an INSN_FILL has. */
	unsigned int (*fill_element)(const uint8_t *bytes, size_t size);
	/* Whether an instruction may be all there is of a function that releases a spinning lock. */
	bool (*may_unlock)(const uint8_t *bytes, size_t size);
	enum entry_kind (*entry_kind)(const char *symbol);
	/* The place of the first direct call of `callee` in `size` bytes of code at `pc`, and of what follows it. */
	bool (*find_call)(const uint8_t *bytes, size_t size, uint64_t pc, uint64_t callee, uint64_t *call,
			  uint64_t *next);
};

extern const struct arch arch_x86_64;

#endif
