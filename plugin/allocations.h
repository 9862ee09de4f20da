/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Who allocated the objects that the kernel has in its memory, the last to do so at each address. */
#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <stdint.h>
#include <stdio.h>

#include "chains.h"

/* An object was allocated at `address`. One for which there is no room is forgotten: it only lacks a name. */
void allocations_add(uint64_t address, const struct allocation *allocation);

/* Write, as CSV, a line for each object: address, chain, asked. Returns 0 or -1. */
int allocations_write(FILE *out);

#endif
