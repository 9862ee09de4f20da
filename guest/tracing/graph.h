/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What functions took, from two calls deep of the text of the kernel's function graph tracer. */
#ifndef GRAPH_H
#define GRAPH_H

#include <stdio.h>

#define MAX_GRAPH_FUNCTIONS 4096
#define MAX_GRAPH_TASKS 1024
#define FUNCTION_BYTES 96 /* of its name, with the end */

/* Of those traced (`is_root`) what they took outside of their callees, else all that it took. */
struct function_time {
	char name[FUNCTION_BYTES];
	int is_root;
	double us;
};

/* What a task, or an idle CPU, is in: at most two calls; NULL: a function for which there was no room. */
struct graph_stack {
	long task;
	int depth;
	struct function_time *root, *callee;
};

struct graph {
	struct function_time functions[MAX_GRAPH_FUNCTIONS];
	int nr_functions;
	struct graph_stack stacks[MAX_GRAPH_TASKS];
	int nr_stacks;
	unsigned long lost; /* calls for which there was no room */
};

/* In place of what it held before, what the trace tells: functions in the order of their time, the longest first. */
void graph_read(struct graph *graph, FILE *trace);

#endif
