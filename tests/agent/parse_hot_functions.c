// SPDX-License-Identifier: GPL-2.0-or-later
/* One row a function, the longest first: name, whether it is a root, microseconds; then what is chosen, what is next, and what was lost. */
#include <stdlib.h>

#include "tracing/hot_functions.h"

void parse(FILE *text, FILE *rows)
{
	struct hot_functions *hot = calloc(1, sizeof(*hot));

	hot_functions_descend(hot, text);
	for (int i = 0; i < hot->graph.nr_functions; i++) {
		const struct function_time *function = &hot->graph.functions[i];

		fprintf(rows, "%s,%d,%.3f\n", function->name, function->is_root, function->us);
	}
	for (int i = 0; i < hot->nr_chosen; i++)
		fprintf(rows, "chosen %s\n", hot->chosen[i]);
	for (int i = 0; i < hot->nr_next; i++)
		fprintf(rows, "next %s\n", hot->next[i]);
	fprintf(rows, "lost %lu\n", hot->lost);
	free(hot);
}
