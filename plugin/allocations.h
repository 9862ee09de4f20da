/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who allocated the objects that the kernel has in its memory, the last to do so at each address. */
#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <stdint.h>
#include <stdio.h>

#include "chains.h"

/* An object was allocated at `address`. */
void allocations_add(uint64_t address, const struct allocation *allocation);

/* How often an object found no room: it only lacks a name. */
uint64_t allocations_lost(void);

/* Write, as CSV, a line for each object: address, chain, asked. Returns 0 or -1. */
int allocations_write(FILE *out);

#endif
