/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The progress of an instruction that fills memory. The emulator restarts a long one now and then, to look for interrupts.
 * Meanwhile an interrupt, or the next task on this CPU, may execute the same instruction. So each stack of a CPU, and each
 * level of interrupts on it, has a progress of its own.
 */
#ifndef FILLS_H
#define FILLS_H

#include <stdbool.h>
#include <stdint.h>

struct fill_progress {
	uint64_t pc;	    /* of the instruction; 0: none has begun */
	uint64_t end, left; /* the end of the range, and how many bytes were left when the instruction last began */
};

/* The instruction begins, with so many bytes left. Returns whether it resumes the fill that was begun. */
static inline bool fill_begins(struct fill_progress *progress, uint64_t pc, uint64_t end, uint64_t left)
{
	bool resumes = progress->pc == pc && progress->end == end && left < progress->left;

	*progress = (struct fill_progress){ pc, end, left };
	return resumes;
}

/* The next instruction begins: a later fill up to the same end does not resume this one. */
static inline void fill_ended(struct fill_progress *progress)
{
	progress->pc = 0;
}

#endif
