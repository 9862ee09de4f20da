// SPDX-License-Identifier: GPL-2.0-or-later
/* One row an absence: pid, name, state, microseconds, path. What came after 10^12 us is cut off. */
#include <stdlib.h>

#include "tracing/switches.h"

void parse(FILE *text, FILE *rows)
{
	struct switches switches = { 0 };
	struct absence *absences;
	size_t number;

	if (switches_read(&switches, text))
		abort();
	switches_cut(&switches, 1000000000000);
	absences = switches_absences(&switches, &number);
	if (!absences)
		abort();
	for (size_t i = 0; i < number; i++)
		fprintf(rows, "%u,%s,%c,%lu,%s\n", absences[i].event->prev, absences[i].event->task,
			absences[i].event->state, absences[i].us, absence_path(&absences[i]));
	free(absences);
	switches_free(&switches);
}
