/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A CPU's time slice on the emulator's one thread, which has up to 100 ms otherwise: it ends after so many instructions.
 */
#ifndef TIME_SLICES_H
#define TIME_SLICES_H

#include <stdint.h>

#include "qemu_api.h"

/*
 * From now on. 0: no number of instructions ends them. With a seed, each has a random number of them between half and
 * one and a half times that.
 */
void time_slices_set(uint64_t instructions, uint64_t seed);

/* The number that ends them; 0 also where QEMU has no way to end them. */
uint64_t time_slices_instructions(void);

/* Count this block's instructions. */
void time_slices_watch(struct qemu_plugin_tb *tb);

#endif
