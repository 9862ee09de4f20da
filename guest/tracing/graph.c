// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define MOST_US 1e15 /* 31 years */

static struct function_time *find_function(struct graph *graph, const char *name, size_t length, int is_root)
{
	struct function_time *found = graph->functions;

	for (; found < graph->functions + graph->nr_functions; found++)
		if (found->is_root == is_root && !strncmp(found->name, name, length) && !found->name[length])
			return found;
	if (graph->nr_functions == MAX_GRAPH_FUNCTIONS || length >= FUNCTION_BYTES) {
		graph->lost++;
		return NULL;
	}
	*found = (struct function_time){ .is_root = is_root };
	memcpy(found->name, name, length);
	graph->nr_functions++;
	return found;
}

static struct graph_stack *find_stack(struct graph *graph, long task)
{
	for (int i = 0; i < graph->nr_stacks; i++)
		if (graph->stacks[i].task == task)
			return &graph->stacks[i];
	if (graph->nr_stacks == MAX_GRAPH_TASKS)
		return NULL;
	graph->stacks[graph->nr_stacks] = (struct graph_stack){ .task = task };
	return &graph->stacks[graph->nr_stacks++];
}

static void add_time(struct function_time *function, double us)
{
	if (function)
		function->us += us;
}

static void called(struct graph *graph, struct graph_stack *stack, const char *text, double us, int has_returned)
{
	size_t length = strcspn(text, " (");
	struct function_time *function;

	if (stack->depth > 1)
		return;
	function = find_function(graph, text, length, !stack->depth);
	if (!stack->depth)
		stack->root = function;
	else
		stack->callee = function;
	if (!has_returned) {
		stack->depth++;
		return;
	}
	add_time(function, us);
	if (stack->depth)
		add_time(stack->root, -us);
}

static void returned(struct graph_stack *stack, double us)
{
	if (!stack->depth)
		return; /* it was called before the trace began */
	if (--stack->depth) {
		add_time(stack->callee, us);
		add_time(stack->root, -us);
	} else {
		add_time(stack->root, us);
	}
}

/* 0 where none is given, or what is there is no time. */
static double parse_us(const char *text)
{
	double us = strtod(text, NULL);

	return us >= 0 && us <= MOST_US ? us : 0;
}

/* " 0)  sh-12   |   1.250 us  |    vfs_read();", "... | vfs_write() {", "... | 4.000 us | }": see probes/graph.py. */
static void parse_line(struct graph *graph, char *line)
{
	char *end_of_task = strchr(line, '|'), *end_of_time = end_of_task ? strchr(end_of_task + 1, '|') : NULL;
	char *pid = end_of_task, *text, *last;
	struct graph_stack *stack;
	long task;
	double us;
	int cpu;

	if (!end_of_time || sscanf(line, " %d)", &cpu) != 1 || cpu < 0)
		return;
	while (pid > line && pid[-1] == ' ')
		pid--;
	while (pid > line && pid[-1] >= '0' && pid[-1] <= '9')
		pid--;
	task = strtol(pid, NULL, 10);
	us = parse_us(end_of_task + 1);
	text = end_of_time + 1 + strspn(end_of_time + 1, " ");
	last = strrchr(text, '\n') ? strrchr(text, '\n') - 1 : text + strlen(text) - 1;
	stack = find_stack(graph, task ? task : -(long)cpu - 1);
	if (!stack) {
		graph->lost += *text != '}';
		return;
	}
	/* The indentation tells how deep it is: where it is none, what came before did not end in the trace. */
	if (text - end_of_time - 1 <= 2 && *text != '}')
		stack->depth = 0;
	if (*text == '}')
		returned(stack, us);
	else if (strchr(text, '(') && (*last == '{' || *last == ';'))
		called(graph, stack, text, us, *last == ';');
}

static int by_time(const void *one, const void *other)
{
	const struct function_time *a = one, *b = other;
	int times = (a->us < b->us) - (a->us > b->us);

	return times ? times : strcmp(a->name, b->name);
}

void graph_read(struct graph *graph, FILE *trace)
{
	char *line = NULL;
	size_t room = 0;

	graph->nr_functions = graph->nr_stacks = 0;
	graph->lost = 0;
	while (getline(&line, &room, trace) >= 0)
		parse_line(graph, line);
	free(line);
	/* Calls that the trace ends in have taken away what their callees took, and have not got what they took. */
	for (int i = 0; i < graph->nr_functions; i++)
		if (graph->functions[i].us < 0)
			graph->functions[i].us = 0;
	qsort(graph->functions, graph->nr_functions, sizeof(*graph->functions), by_time);
}
