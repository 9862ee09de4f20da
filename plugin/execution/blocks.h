/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sees blocks of kernel code being executed: counts their instructions for functions (instructions.h), lock owners and traces. */
#ifndef BLOCKS_H
#define BLOCKS_H

#include <stdint.h>

#include "qemu/qemu_api.h"

struct block;

/* Instrument a block at its first instruction. The block belongs to the function at that address. */
struct block *blocks_watch(struct qemu_plugin_insn *first, uint64_t function, size_t nr_insns);

/* One of its instructions has that number in arch->costly_names. */
void blocks_add_costly(struct block *block, unsigned int number);

/* All that was counted goes to the CPUs' tables. */
void blocks_flush(void);

/* All translated code was thrown away. */
void blocks_free(void);

#endif
