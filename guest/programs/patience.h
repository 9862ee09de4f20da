/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long a stage may take by the machine's clock before it has failed. */
#ifndef PATIENCE_H
#define PATIENCE_H

#include <stdint.h>

struct job;

struct patience {
	uint64_t looked, deadline;
	int clock_jumps;
};

void patience_begin(struct patience *patience, const struct job *job);

/*
 * A clock that follows instructions jumps to the next timer while all CPUs are idle, even if a task waits for a disk,
 * which the host reads in its own time. What passes meanwhile does not count.
 */
int patience_is_over(struct patience *patience);

#endif
