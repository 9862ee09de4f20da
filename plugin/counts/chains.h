/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How the kernel got where it is: the call chain of each kernel stack, and a tree of all chains that were seen.
 *
 * A chain is a list of the places of calls that have not returned, as in the kernel's own stack dumps: a function that
 * ended in a jump to another is not in it.
 */
#ifndef CHAINS_H
#define CHAINS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define MAX_FRAMES 128
#define MAX_ALLOCATIONS 8 /* nested */

/* A chain's number in the tree; 0 is the empty chain. */
typedef uint32_t chain_id;

struct frame {
	/*
	 * Where the return address lies, or the caller's stack pointer if calls do not push it. 0 in an entry's frame that
	 * has called nothing yet.
	 */
	uint64_t sp;
	chain_id chain; /* that the frame returns to */
	bool entry;	/* of an interrupt or an exception: only its own return ends it */
};

/* A call of an allocator. */
struct allocation {
	uint64_t sp;	/* of its frame */
	chain_id chain; /* of the calls that led to it, its own the last */
	uint64_t request; /* its first argument: a pointer to the cache, or a size */
	uint64_t array; /* where a bulk allocator puts pointers; its result is how many. 0: its result is the pointer */
};

/* Invariant: sp grows from the last frame to the first, as the stack grows down. The same holds for allocations. */
struct call_stack {
	unsigned int nr_allocations;
	unsigned int nr_frames;
	chain_id chain;	     /* that the stack is in now */
	struct allocation allocations[MAX_ALLOCATIONS];
	struct frame frames[MAX_FRAMES];
};

/* A call in the code, and the chain that it led to last: mostly the same again, on any CPU. */
struct call_site {
	uint64_t pc;
	chain_id from, to; /* 0: to none yet */
};

/* The call put its return address at `sp`, or was made with the stack pointer there. */
void chain_call(struct call_stack *stack, struct call_site *site, uint64_t sp);
/* A return took its address from `sp`, or was made with the stack pointer there. */
void chain_return(struct call_stack *stack, uint64_t sp);
/* The function that was called last allocates. */
void chain_allocates(struct call_stack *stack, uint64_t request, uint64_t array);
/* Whether the return at `sp` ended an allocation: if so, *allocation is that. */
bool chain_allocated(struct call_stack *stack, uint64_t sp, struct allocation *allocation);
/* An interrupt or exception entered the kernel at `pc`. An interrupt begins a chain of its own. */
void chain_enter(struct call_stack *stack, uint64_t pc, bool interrupt);
void chain_leave(struct call_stack *stack);
/* The CPU changed to an interrupt's stack, whose chain continues that of the interrupted stack. */
void chain_continue(struct call_stack *stack, chain_id chain);
/* Back in user mode: nothing is left. */
void chain_reset(struct call_stack *stack);

/* Where the return address of the function that runs lies; 0 where that is not known. */
static inline uint64_t chain_sp(const struct call_stack *stack)
{
	return stack->nr_frames ? stack->frames[stack->nr_frames - 1].sp : 0;
}

/* The place of a chain's last call; 0 of the empty chain. */
uint64_t chain_pc(chain_id chain);

/* What is not in the chains, since the program began. */
struct chains_lost {
	uint64_t calls;	      /* deeper than MAX_FRAMES: what they do is counted for their callers */
	uint64_t chains;      /* for which the tree had no room: so are they */
	uint64_t allocations; /* deeper than MAX_ALLOCATIONS, or than MAX_FRAMES */
};

struct chains_lost chains_lost(void);

/* Write the tree as CSV: chain, parent, pc of the call. Returns 0 or -1. */
int chains_write(FILE *out);

#endif
