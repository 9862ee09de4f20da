/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef XALLOC_H
#define XALLOC_H

#include <stdio.h>
#include <stdlib.h>

/* Zeroed memory. If there is none, QEMU ends, as it does when its own allocations fail. */
static inline void *xcalloc(size_t nr, size_t bytes)
{
	void *memory = calloc(nr ? nr : 1, bytes);

	if (!memory) {
		fprintf(stderr, "recorder: no memory for %zu times %zu bytes\n", nr, bytes);
		abort();
	}
	return memory;
}

/* The same for memory that grows: the new part is not zeroed. */
static inline void *xrealloc(void *memory, size_t bytes)
{
	memory = realloc(memory, bytes);
	if (!memory) {
		fprintf(stderr, "recorder: no memory for %zu bytes\n", bytes);
		abort();
	}
	return memory;
}

#endif
