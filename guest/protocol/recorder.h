/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The recorder is the QEMU plugin that counts. The agent speaks to it by marks: an instruction that does nothing,
 * with what is meant in registers. Without the plugin a mark has no effect at all.
 */
#ifndef RECORDER_H
#define RECORDER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#define RECORDER_MAGIC 0x6269676972306eul /* "bigir0n" */

#if defined(__x86_64__)
#define RECORDER_MARK ".byte 0x66, 0x87, 0xc9" /* xchg %cx,%cx */
#elif defined(__powerpc64__)
#define RECORDER_MARK "xori 0,0,0"
#elif defined(__aarch64__)
#define RECORDER_MARK "mov x28, x28"
#endif

enum recorder_mark {
	MARK_SYMBOLS = 1, /* memory: a part of /proc/kallsyms; before the first MARK_ARM */
	MARK_ARM = 2,	  /* memory: struct recorder_arm */
	MARK_DISARM = 3,
	MARK_AGENT = 4,	  /* the next instructions are a system call: the agent's, as are all others on its stack */
	/* With RECORD_TESTS: */
	MARK_TEST = 5,	  /* length: its number: from now on calls are this test's */
	MARK_CALL = 6,	  /* what this CPU does from now on is a call's */
	MARK_CALL_END = 7,
	MARK_TEST_END = 8,
	/* With RECORD_PROGRAM, from any process; what it records of a program may have several parts: */
	MARK_BEGIN = 9,	  /* from now on all that CPUs execute is counted, but not what the agent does */
	MARK_END = 10,	  /* no longer */
	/* At any time, and until the next one: */
	MARK_TIME_SLICES = 11, /* length: the instructions of a CPU's time slice, 0: any number;
				  memory: the seed of a random number between half and one and a half times that, or 0 */
};

/*
 * Each task counts its operations in a slot of its own; the recorder watches the slots, and records a task from
 * its first count after the mark until it has counted `operations` more.
 */
struct recorder_arm {
	uint64_t slots;	     /* user address of the first slot, the same in every process */
	uint64_t slot_bytes; /* from one slot to the next */
	uint64_t nr_slots;
	uint64_t operations;
	uint64_t what; /* bits: what to record */
};

enum recorder_what {
	RECORD_CONFLICTS = 1, /* accesses to shared lines */
	RECORD_INSTRUCTIONS = 2,      /* instructions of every function */
	RECORD_EVERYWHERE = 4, /* on all CPUs while a task does its operations, not on its own alone */
	RECORD_USER = 8,      /* with conflicts: accesses to user memory too */
	RECORD_LOCKS = 16,    /* locks that are taken, and how long they are held */
	RECORD_TRACE = 32,    /* with conflicts and locks: what sampled operations do, in order */
	RECORD_TESTS = 64,    /* with conflicts: each test's alone, between marks and not by the tasks' counts */
	RECORD_PROGRAM = 128, /* on all CPUs between MARK_BEGIN and MARK_END, and not by tasks' counts: there are no slots */
	RECORD_LAYOUT = 256,  /* with conflicts: accesses to lines of one CPU too, and the bytes of each access apart */
};

static inline void recorder_mark(enum recorder_mark mark, const void *memory, uint64_t length)
{
#if defined(__x86_64__)
	asm volatile(RECORDER_MARK
		     :
		     : "a"(RECORDER_MAGIC), "D"((uint64_t)mark), "S"(memory), "d"(length)
		     : "memory");
#elif defined(__powerpc64__)
	register uint64_t magic asm("r3") = RECORDER_MAGIC;
	register uint64_t what asm("r4") = mark;
	register const void *where asm("r5") = memory;
	register uint64_t size asm("r6") = length;

	asm volatile(RECORDER_MARK : : "r"(magic), "r"(what), "r"(where), "r"(size) : "memory");
#elif defined(__aarch64__)
	register uint64_t magic asm("x0") = RECORDER_MAGIC;
	register uint64_t what asm("x1") = mark;
	register const void *where asm("x2") = memory;
	register uint64_t size asm("x3") = length;

	asm volatile(RECORDER_MARK : : "r"(magic), "r"(what), "r"(where), "r"(size) : "memory");
#else
	(void)mark, (void)memory, (void)length;
#endif
}

/*
 * Show the recorder the agent's kernel stack, whose accesses are no workload's. The mark and the system call are
 * translated as one block: nothing can interrupt the agent in between, and no other task can make the call in its place.
 */
static inline void recorder_show_agent(void)
{
#if defined(__x86_64__)
	uint64_t number = RECORDER_MAGIC;

	asm volatile(".p2align 4\n\t"
		     RECORDER_MARK "\n\t"
		     "movl %[getppid], %%eax\n\t"
		     "syscall"
		     : "+a"(number)
		     : "D"((uint64_t)MARK_AGENT), "S"(0ul), "d"(0ul), [getppid] "i"(SYS_getppid)
		     : "rcx", "r11", "memory");
#elif defined(__powerpc64__)
	register uint64_t magic asm("r3") = RECORDER_MAGIC;
	register uint64_t what asm("r4") = MARK_AGENT;
	register uint64_t where asm("r5") = 0;
	register uint64_t size asm("r6") = 0;

	asm volatile(".p2align 4\n\t"
		     RECORDER_MARK "\n\t"
		     "li 0,%[getppid]\n\t"
		     "sc"
		     : "+r"(magic), "+r"(what), "+r"(where), "+r"(size)
		     : [getppid] "i"(SYS_getppid)
		     : "r0", "r7", "r8", "r9", "r10", "r11", "r12", "cr0", "ctr", "xer", "memory");
#elif defined(__aarch64__)
	register uint64_t magic asm("x0") = RECORDER_MAGIC;
	register uint64_t what asm("x1") = MARK_AGENT;
	register uint64_t where asm("x2") = 0;
	register uint64_t size asm("x3") = 0;
	register uint64_t number asm("x8") = SYS_getppid;

	asm volatile(".p2align 4\n\t"
		     RECORDER_MARK "\n\t"
		     "svc #0"
		     : "+r"(magic)
		     : "r"(what), "r"(where), "r"(size), "r"(number)
		     : "memory");
#endif
}

/*
 * Be ready to record a program. `what`: bits of enum recorder_what. The caller is the agent: what it does is not counted.
 */
void record_program(uint64_t what);
/* From the first to the second all is counted. The recording ends with MARK_DISARM. */
static inline void record_program_begin(void)
{
	recorder_mark(MARK_BEGIN, NULL, 0);
}

static inline void record_program_end(void)
{
	recorder_mark(MARK_END, NULL, 0);
}

/* Hand /proc/kallsyms to the recorder, as far as there is one. */
void record_symbols(void);
/* The same of the lines that modules have, which were loaded since. */
void record_module_symbols(void);

#endif
