// SPDX-License-Identifier: GPL-2.0-or-later
#include "choice.h"

#include <string.h>

const char *const *choice_roots(int *number)
{
	/* System calls, and what kernel threads do on behalf of one: work items, and each CPU's part of its going. */
	static const char *const roots[] = {
#if defined(__x86_64__)
		"__x64_sys_*",
#elif defined(__aarch64__)
		"__arm64_sys_*",
#else
		"sys_*",
#endif
		"process_one_work", "cpuhp_thread_fun",
	};

	*number = sizeof(roots) / sizeof(*roots);
	return roots;
}

static int is_chosen(const struct choice *choice, const char *name)
{
	for (int i = 0; i < choice->nr_chosen; i++)
		if (!strcmp(choice->chosen[i], name))
			return 1;
	return 0;
}

static void choose(struct choice *choice, const struct function_time *function)
{
	if (is_chosen(choice, function->name))
		return;
	if (choice->nr_chosen == MAX_CHOSEN) {
		choice->lost++;
		return;
	}
	strcpy(choice->chosen[choice->nr_chosen++], function->name);
	/* Where it took its time itself there is nothing below it; and whoever waits does so in the scheduler. */
	if (!function->is_root && strcmp(function->name, "schedule"))
		strcpy(choice->next[choice->nr_next++], function->name);
}

void choice_narrow(struct choice *choice, FILE *trace)
{
	const struct graph *graph = &choice->graph;
	double all = 0, so_far = 0;

	graph_read(&choice->graph, trace);
	choice->lost += graph->lost;
	choice->nr_next = 0;
	for (int i = 0; i < graph->nr_functions; i++)
		all += graph->functions[i].us;
	for (int i = 0; i < graph->nr_functions && so_far < SHARE_WANTED * all; i++) {
		so_far += graph->functions[i].us;
		choose(choice, &graph->functions[i]);
	}
}
