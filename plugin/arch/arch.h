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
	INSN_FILL,	       /* stores over a range of memory that its registers tell */
	INSN_STRING,	       /* repeats other accesses over ranges of memory */
	INSN_UNSEEN,	       /* loads and stores of which the emulator does not tell */
	INSN_STACK,	       /* addresses its own stack by the stack pointer: nothing to record */
	INSN_CALL,	       /* its store, or the stack register, shows where the stack is */
	INSN_CALL_BY_MEMORY,   /* so does its store; its load is recorded */
	INSN_RETURN,	       /* its load, or the stack register, shows where the stack is */
	INSN_MAY_RETURN,       /* a return only if its condition is met */
	INSN_INTERRUPT_RETURN, /* ends an interrupt or an exception, or goes where the saved state says */
	INSN_USER_RETURN,      /* goes to user code */
};

/* Two instructions that together are one atomic access, if no other CPU writes in between. */
enum exclusive_kind {
	EXCLUSIVE_NONE,
	EXCLUSIVE_LOAD,
	EXCLUSIVE_STORE, /* the emulator compares and exchanges: it loads what it stores to, and stores though it fails */
};

/* To invalidate what other CPUs' TLBs have, a CPU tells all of them, and waits until they have done so. */
enum broadcast_kind {
	BROADCAST_NONE,
	BROADCAST_SENT,
	BROADCAST_AWAITED,
};

/* The kernel's functions at which the recorder must know that the context changes. */
enum entry_kind {
	ENTRY_NONE,
	ENTRY_EXCEPTION,
	ENTRY_INTERRUPT,
	ENTRY_OLD_EXCEPTION, /* the same where their code changes stacks without a call: the stack pointer tells */
	ENTRY_OLD_INTERRUPT,
	ENTRY_USER_INTERRUPT, /* an interrupt of user code, whose way into the kernel may pass several of these */
	ENTRY_EMERGENCY_STACK, /* goes on with an interrupt or an exception, on a stack that is no task's */
	ENTRY_DEFERRED,	       /* a function that does what an interrupt could not, or left to be done later */
	ENTRY_FTRACE,	       /* is called at the start of a function, and does not return to its call */
	ENTRY_CONTEXT_SWITCH,  /* to another task's stack */
	ENTRY_SWITCHED,	       /* the stack is that of the task that was switched to */
	ENTRY_PREEMPTED,       /* a task must give up its CPU */
	ENTRY_RESUMED,	       /* and has it again */
	ENTRY_NEW_TASK,	       /* begins */
	ENTRY_SYSTEM_CALL,     /* by a program of the kernel's own kind */
	ENTRY_OTHER_SYSTEM_CALL, /* by another: its calls have other numbers */
	ENTRY_ALLOC,	       /* a function that returns a new object */
	ENTRY_ALLOC_BULK,      /* one that puts pointers to new objects where its fourth argument says */
	NR_ENTRY_KINDS,
};

/* What the scheduler's tick has a task do on its way back to user mode, wherever that comes from. */
#define TICK_WORK "task_mm_cid_work", "task_numa_work"

/*
 * kernel/softirq.c, before 6.10 and since. With CONFIG_PREEMPT_RT, and on arm64 before 6.1, they run on the stack of the
 * task that lets them.
 */
#define SOFTIRQS "__do_softirq", "handle_softirqs"

#define ENTRY_BYTES 8
#define STACK_TOP_BYTES 384 /* no struct pt_regs is larger */

/* The range that an INSN_FILL stores over: where it starts is the sum of two registers, of which there may be one. */
struct fill_form {
	const char *start[2];
	const char *count;    /* a register: how many elements; NULL: one */
	unsigned int element; /* bytes */
	bool aligned;	      /* starts where the element does in which the address lies */
};

/* Whether some bits of a CPU's state have a value. No bits always have. */
struct state_test {
	uint64_t bits, value;
};

static inline bool state_passes(uint64_t state, struct state_test test)
{
	return (state & test.bits) == test.value;
}

struct arch {
	const char *target;	/* QEMU's name of it */
	unsigned int line_bytes;
	uint64_t kernel_start;	/* addresses from here on are the kernel's */
	/* Its maps of all memory and of itself: no device's registers are there. Unused ones are empty. */
	struct {
		uint64_t from, to;
	} memory[2];
	uint64_t no_stack_from; /* call frames in this range are on no task's stack: entry trampolines */
	uint64_t no_stack_to;
	const char *mark_registers[4]; /* of a mark: magic, mark, memory, length (guest/protocol/recorder.h) */
	const char *call_registers[3]; /* of a call: its result, its first argument, its fourth */
	const char *stack_register;    /* where the stack is at a call and a return; NULL: they access it themselves */
	const char *entry_stack_register; /* where the stack is at an interrupt or exception's entry and return */
	unsigned int entry_moves; /* by how many bytes at most the two differ, or the latter from the stack's top */
	const char *system_call_register; /* a system call's number at an ENTRY_SYSTEM_CALL */
	unsigned int system_call_at; /* or the address of memory that has the number this far behind it; 0: the number */
	const char *condition_register; /* what an INSN_MAY_RETURN depends on */
	const char *state_register;	/* tells user code from the kernel's; NULL: the address does */
	const char *saved_state_register; /* what an INSN_INTERRUPT_RETURN sets it to; NULL: not known */
	struct state_test user_state;	  /* passed by that of user code */
	struct state_test virtual_state;  /* and by that of all code but firmware's */
	const char *repeats_register;	  /* tells whether a string instruction begins or is resumed */
	uint64_t repeat_resumes;	  /* its bit that is set while such an instruction is resumed */
	bool (*is_mark)(const uint8_t *bytes, size_t size);
	enum insn_kind (*classify)(const uint8_t *bytes, size_t size);
	struct fill_form (*fill)(const uint8_t *bytes, size_t size);
	/* Whether what ends with these bytes may be an INSN_FILL that can start again; NULL: none can. */
	bool (*may_be_fill)(const uint8_t *bytes, size_t size);
	/* Whether an INSN_MAY_RETURN, by its first bytes as a number, returns. */
	bool (*returns)(uint32_t insn, uint64_t condition);
	/* Whether an instruction may be all there is of a function that releases a spinning lock; NULL: not known. */
	bool (*may_unlock)(const uint8_t *bytes, size_t size);
	/* Whether an instruction reads and writes memory at once, for all CPUs; NULL: not known. */
	bool (*is_atomic)(const uint8_t *bytes, size_t size);
	/* Names of instructions that take much longer than others, from number 1 on; NULL ends them. */
	const char *const *costly_names;
	/* The number of an instruction in them; 0: it is none of them. */
	unsigned int (*costly)(const uint8_t *bytes, size_t size);
	/* Whether it does so in two parts, and which of them it is; NULL: none does. */
	enum exclusive_kind (*exclusive)(const uint8_t *bytes, size_t size);
	/* Which part of such a broadcast an instruction is; NULL: CPUs are interrupted instead. */
	enum broadcast_kind (*broadcast)(const uint8_t *bytes, size_t size);
	/* Of a symbol, and its type as nm(1) has it. */
	enum entry_kind (*entry_kind)(const char *symbol, char type);
	/* The same of the entries of a table of vectors, from the first on; 0 of any other symbol. NULL: there are none. */
	unsigned int (*nr_vectors)(const char *symbol);
	enum entry_kind (*vector_kind)(unsigned int nr);
	unsigned int vector_bytes;
	/* Whether user code was interrupted by what is saved at the top of a stack, its last words; NULL: not known. */
	bool (*is_user_entry)(const uint64_t words[STACK_TOP_BYTES / 8]);
	/* How far behind a function's symbol every call of it comes by; its first ENTRY_BYTES tell. */
	unsigned int (*entry_offset)(const uint8_t bytes[ENTRY_BYTES]);
	/* The place of the first direct call of `callee` in `size` bytes of code at `pc`, and of what follows it. */
	bool (*find_call)(const uint8_t *bytes, size_t size, uint64_t pc, uint64_t callee, uint64_t *call,
			  uint64_t *next);
};

extern const struct arch arch_x86_64;
extern const struct arch arch_ppc64le;
extern const struct arch arch_aarch64;

#endif
