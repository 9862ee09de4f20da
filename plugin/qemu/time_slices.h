/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A CPU's time slice on the emulator's one thread, which has up to 100 ms otherwise: it ends after so many instructions.
 */
#ifndef TIME_SLICES_H
#define TIME_SLICES_H

#include <stdint.h>

#include "qemu/qemu_api.h"

/* The one that runs. */
extern struct time_slice {
	uint64_t instructions; /* that each has on average; 0: no number ends them */
	void *cpu;	       /* QEMU's, whose it is; NULL: the next one's begins */
	int64_t left;	       /* of its instructions */
} time_slice;

void time_slices_begin(void);
void time_slices_end(void);

/*
 * For code that is translated from now on. 0: no number of instructions ends them. With a seed, each has a random number of them between half and
 * one and a half times that. Where QEMU has no way to end them, no number does.
 */
void time_slices_set(uint64_t instructions, uint64_t seed);

/* Count this block's instructions. */
void time_slices_watch(struct qemu_plugin_tb *tb);

/* The same of a block that has a callback anyway: most of a callback's cost is the call. */
static inline void time_slices_execute(uint64_t instructions)
{
	if (!time_slice.instructions)
		return;
	if (time_slice.cpu != current_cpu)
		time_slices_begin();
	time_slice.left -= instructions;
	if (time_slice.left <= 0)
		time_slices_end();
}

#endif
