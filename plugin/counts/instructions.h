/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How many instructions each function executed, by the call chain that led to it. */
#ifndef WORK_H
#define WORK_H

#include <stdint.h>
#include <stdio.h>

#include "counts/chains.h"
#include "counts/context.h"
#include "lib/hash.h"

/* One per CPU. Instructions for which there was no room are in counts.lost. */
struct instruction_table {
	struct hash_table counts; /* of struct instruction_count */
	uint64_t instructions[NR_CONTEXTS];
};

struct executed {
	uint64_t function; /* its address */
	chain_id chain;	   /* of the calls that led to it */
	enum context context;
	uint32_t instructions;
};

void instructions_init(struct instruction_table *table);
/* Instructions of what was executed: those of a number in arch->costly_names, or all others (0). */
void instructions_add(struct instruction_table *table, const struct executed *executed, unsigned int costly,
		      uint64_t instructions);

/* Write, as CSV, a line for each CPU, context, chain, function and name of `costly`. Returns 0 or -1. */
int instructions_write(FILE *out, struct instruction_table *const *tables, unsigned int nr_tables);

#endif
