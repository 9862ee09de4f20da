/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The last allocation at each address of kernel memory: by which chain of calls, and of what. */
#ifndef ALLOCATIONS_H
#define ALLOCATIONS_H

#include <stdint.h>
#include <stdio.h>

#include "counts/chains.h"

/* An object was allocated at `address`. */
void allocations_add(uint64_t address, const struct allocation *allocation);

/* How many objects found no room: they only lack a name. */
uint64_t allocations_lost(void);

/* Write each object as CSV. Returns 0 or -1. */
int allocations_write(FILE *out);

#endif
