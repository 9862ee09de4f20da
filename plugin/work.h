/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many instructions each function executed, by the call chain that led to it. */
#ifndef WORK_H
#define WORK_H

#include <stdint.h>
#include <stdio.h>

#include "chains.h"
#include "lines.h"

/* One table a CPU. Invariant: what no entry had room for is in `lost`. */
struct work_table {
	struct work_count *counts;
	uint64_t capacity, used;
	uint64_t lost;
	uint64_t instructions[NR_CONTEXTS];
};

struct work {
	uint64_t function; /* its address */
	chain_id chain;	   /* of the calls that led to it */
	enum context context;
	uint32_t instructions;
};

void work_count(struct work_table *table, const struct work *work, uint32_t times);

/* Write, as CSV, a line for each CPU, context, chain and function. Returns 0 or -1. */
int work_write(FILE *out, struct work_table *const *tables, unsigned int nr_tables);

#endif
