/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How far an instruction that fills memory has got. The emulator begins a long one anew now and then, to look for
 * interrupts, and an interrupt, or the next task on this CPU, may run the same instruction before it goes on: so there
 * is one of these for each stack of a CPU, and each level of interrupts on it.
 */
#ifndef FILLS_H
#define FILLS_H

#include <stdbool.h>
#include <stdint.h>

struct fill_progress {
	uint64_t pc; /* of the instruction; 0: none has begun */
	uint64_t end, left; /* the range's end, and its bytes that were left when the instruction last began */
};

/* The instruction begins, with so many bytes left: whether it goes on with what was begun. */
static inline bool fill_begins(struct fill_progress *progress, uint64_t pc, uint64_t end, uint64_t left)
{
	bool goes_on = progress->pc == pc && progress->end == end && left < progress->left;

	*progress = (struct fill_progress){ pc, end, left };
	return goes_on;
}

/* The next instruction begins. One that fills another range up to the same end is no rest of this one. */
static inline void fill_ended(struct fill_progress *progress)
{
	progress->pc = 0;
}

#endif
