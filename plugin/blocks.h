/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sees blocks of kernel code being executed: counts their instructions for functions (instructions.h), lock owners and traces. */
#ifndef BLOCKS_H
#define BLOCKS_H

#include <stdint.h>

#include "qemu_api.h"

/* Instrument a block at its first instruction. The block belongs to the function at that address. */
void blocks_watch(struct qemu_plugin_insn *first, uint64_t function, size_t nr_insns);

/* All that was counted goes to the CPUs' tables. */
void blocks_flush(void);

/* All translated code was thrown away. */
void blocks_free(void);

#endif
