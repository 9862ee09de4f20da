// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"

#define MAX_CANDIDATES 4096
#define MAX_STACKS 1024
#define NAME_BYTES 96

/* A function of the trace: of those traced (`is_root`) what they took outside of their callees, else all that it took. */
struct candidate {
	char name[NAME_BYTES];
	int is_root;
	double us;
};

static struct candidate candidates[MAX_CANDIDATES];
static int nr_candidates;

/* What a task, or an idle CPU, is in: at most two calls. */
static struct stack {
	long task;
	int depth;
	struct candidate *root;
	struct candidate *callee;
} stacks[MAX_STACKS];
static int nr_stacks;

static char chosen[MAX_CHOSEN][NAME_BYTES], next[MAX_CHOSEN][NAME_BYTES];
static int nr_chosen, nr_next;

const char *const *choice_roots(int *number)
{
	/* System calls, and what kernel threads do on behalf of one: work items, and each CPU's part of its going. */
	static const char *const roots[] = {
#ifdef __x86_64__
		"__x64_sys_*",
#else
		"sys_*",
#endif
		"process_one_work", "cpuhp_thread_fun",
	};

	*number = sizeof(roots) / sizeof(*roots);
	return roots;
}

static struct candidate *candidate(const char *name, size_t length, int is_root)
{
	struct candidate *found = candidates;

	for (; found < candidates + nr_candidates; found++)
		if (found->is_root == is_root && !strncmp(found->name, name, length) && !found->name[length])
			return found;
	if (nr_candidates == MAX_CANDIDATES || length >= NAME_BYTES)
		return NULL;
	*found = (struct candidate){ .is_root = is_root };
	memcpy(found->name, name, length);
	nr_candidates++;
	return found;
}

static struct stack *stack_of(long task)
{
	for (int i = 0; i < nr_stacks; i++)
		if (stacks[i].task == task)
			return &stacks[i];
	if (nr_stacks == MAX_STACKS)
		return NULL;
	stacks[nr_stacks] = (struct stack){ .task = task };
	return &stacks[nr_stacks++];
}

static void add_time(struct candidate *function, double us)
{
	if (function)
		function->us += us;
}

static void called(struct stack *stack, const char *text, double us, int returned)
{
	size_t length = strcspn(text, " (");
	struct candidate *function;

	if (stack->depth > 1)
		return;
	function = candidate(text, length, !stack->depth);
	if (!stack->depth)
		stack->root = function;
	else
		stack->callee = function;
	if (!returned) {
		stack->depth++;
		return;
	}
	add_time(function, us);
	if (stack->depth)
		add_time(stack->root, -us);
}

static void returned(struct stack *stack, double us)
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

/* " 0)  sh-12   |   1.250 us  |    vfs_read();", "... | vfs_write() {", "... | 4.000 us | }": see probes/graph.py. */
static void parse_line(char *line)
{
	char *end_of_task = strchr(line, '|'), *end_of_time = end_of_task ? strchr(end_of_task + 1, '|') : NULL;
	char *pid = end_of_task, *text, *last;
	struct stack *stack;
	long cpu, task;
	double us;

	if (!end_of_time || sscanf(line, " %ld)", &cpu) != 1)
		return;
	while (pid > line && pid[-1] == ' ')
		pid--;
	while (pid > line && pid[-1] >= '0' && pid[-1] <= '9')
		pid--;
	task = strtol(pid, NULL, 10);
	stack = stack_of(task ? task : -cpu - 1);
	if (!stack)
		return;
	us = strtod(end_of_task + 1, NULL);
	text = end_of_time + 1 + strspn(end_of_time + 1, " ");
	/* The indentation tells how deep it is: where it is none, what came before did not end in the trace. */
	if (text - end_of_time - 1 <= 2 && *text != '}')
		stack->depth = 0;
	last = strrchr(text, '\n') ? strrchr(text, '\n') - 1 : text + strlen(text) - 1;
	if (*text == '}')
		returned(stack, us);
	else if (strchr(text, '(') && (*last == '{' || *last == ';'))
		called(stack, text, us, *last == ';');
}

static int parse(const char *path)
{
	FILE *trace = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;

	if (!trace)
		return report_error("machine", "cannot read the trace: %m");
	nr_candidates = nr_stacks = 0;
	while (getline(&line, &room, trace) >= 0)
		parse_line(line);
	free(line);
	fclose(trace);
	/* Calls that the trace ends in have taken away what their callees took, and have not got what they took. */
	for (int i = 0; i < nr_candidates; i++)
		if (candidates[i].us < 0)
			candidates[i].us = 0;
	return 0;
}

static int by_time(const void *one, const void *other)
{
	const struct candidate *a = one, *b = other;

	return (a->us < b->us) - (a->us > b->us);
}

static int is_chosen(const char *name)
{
	for (int i = 0; i < nr_chosen; i++)
		if (!strcmp(chosen[i], name))
			return 1;
	return 0;
}

int choice_narrow(const char *path)
{
	double all = 0, so_far = 0;

	if (parse(path))
		return -1;
	nr_next = 0;
	qsort(candidates, nr_candidates, sizeof(*candidates), by_time);
	for (int i = 0; i < nr_candidates; i++)
		all += candidates[i].us;
	for (int i = 0; i < nr_candidates && so_far < SHARE_WANTED * all && nr_chosen < MAX_CHOSEN; i++) {
		struct candidate *function = &candidates[i];

		so_far += function->us;
		if (is_chosen(function->name))
			continue;
		strcpy(chosen[nr_chosen++], function->name);
		/* Where it took its time itself there is nothing below it; and whoever waits does so in the scheduler. */
		if (!function->is_root && strcmp(function->name, "schedule"))
			strcpy(next[nr_next++], function->name);
	}
	return nr_next;
}

const char *choice_next(int nr)
{
	return next[nr];
}

int choice_number(void)
{
	return nr_chosen;
}

const char *choice_name(int nr)
{
	return chosen[nr];
}
