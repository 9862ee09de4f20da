// SPDX-License-Identifier: GPL-2.0-or-later
#include "hot_functions.h"

#include <string.h>

const char *const *hot_functions_roots(int *number)
{
	/* System calls, and what kernel threads do for them: work items, and each CPU's part of its hotplug. */
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

static int is_chosen(const struct hot_functions *hot, const char *name)
{
	for (int i = 0; i < hot->nr_chosen; i++)
		if (!strcmp(hot->chosen[i], name))
			return 1;
	return 0;
}

static void choose(struct hot_functions *hot, const struct function_time *function)
{
	if (is_chosen(hot, function->name))
		return;
	if (hot->nr_chosen == MAX_CHOSEN) {
		hot->lost++;
		return;
	}
	strcpy(hot->chosen[hot->nr_chosen++], function->name);
	/* There is nothing below a function that spent the time itself, or that waits in the scheduler. */
	if (!function->is_root && strcmp(function->name, "schedule"))
		strcpy(hot->next[hot->nr_next++], function->name);
}

void hot_functions_descend(struct hot_functions *hot, FILE *trace)
{
	const struct graph *graph = &hot->graph;
	double all = 0, so_far = 0;

	graph_read(&hot->graph, trace);
	hot->lost += graph->lost;
	hot->nr_next = 0;
	for (int i = 0; i < graph->nr_functions; i++)
		all += graph->functions[i].us;
	for (int i = 0; i < graph->nr_functions && so_far < SHARE_WANTED * all; i++) {
		so_far += graph->functions[i].us;
		choose(hot, &graph->functions[i]);
	}
}
