/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions that account for most of the operations' time. They are found in rounds, from where the kernel is entered.
 * Each round descends one call deeper, into the functions that together took SHARE_WANTED of the time.
 */
#ifndef HOT_FUNCTIONS_H
#define HOT_FUNCTIONS_H

#include "graph.h"

#define SHARE_WANTED 0.9
#define MAX_CHOSEN 64

struct hot_functions {
	char chosen[MAX_CHOSEN][FUNCTION_BYTES]; /* over all rounds */
	int nr_chosen;
	char next[MAX_CHOSEN][FUNCTION_BYTES]; /* the chosen functions to trace in the next round */
	int nr_next;
	unsigned long lost; /* functions that should have been chosen, and for which there was no room */
	struct graph graph;
};

/* Where to begin. Returns the names, and how many in `number`. */
const char *const *hot_functions_roots(int *number);

/* Read a trace, two calls deep, of the functions chosen last, at first the roots. Choose the next ones: none at the end. */
void hot_functions_descend(struct hot_functions *hot, FILE *trace);

#endif
