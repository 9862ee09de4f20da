// SPDX-License-Identifier: GPL-2.0-or-later
/* One row a function, the longest first: name, whether it is a root, microseconds; then what is chosen, what is next, and what was lost. */
#include <stdlib.h>

#include "choice.h"

void parse(FILE *text, FILE *rows)
{
	struct choice *choice = calloc(1, sizeof(*choice));

	choice_narrow(choice, text);
	for (int i = 0; i < choice->graph.nr_functions; i++) {
		const struct function_time *function = &choice->graph.functions[i];

		fprintf(rows, "%s,%d,%.3f\n", function->name, function->is_root, function->us);
	}
	for (int i = 0; i < choice->nr_chosen; i++)
		fprintf(rows, "chosen %s\n", choice->chosen[i]);
	for (int i = 0; i < choice->nr_next; i++)
		fprintf(rows, "next %s\n", choice->next[i]);
	fprintf(rows, "lost %lu\n", choice->lost);
	free(choice);
}
