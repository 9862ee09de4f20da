/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many instructions each function executed, by the call chain that led to it. */
#ifndef WORK_H
#define WORK_H

#include <stdint.h>
#include <stdio.h>

#include "chains.h"
#include "context.h"
#include "hash.h"

/* One per CPU. Instructions for which there was no room are in counts.lost. */
struct work_table {
	struct hash_table counts; /* of struct work_count */
	uint64_t instructions[NR_CONTEXTS];
};

struct work {
	uint64_t function; /* its address */
	chain_id chain;	   /* of the calls that led to it */
	enum context context;
	uint32_t instructions;
};

void work_init(struct work_table *table);
void work_add(struct work_table *table, const struct work *work, uint32_t times);

/* Write, as CSV, a line for each CPU, context, chain and function. Returns 0 or -1. */
int work_write(FILE *out, struct work_table *const *tables, unsigned int nr_tables);

#endif
