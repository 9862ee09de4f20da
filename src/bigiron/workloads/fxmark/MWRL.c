// SPDX-License-Identifier: GPL-2.0-or-later
/* The rename's sequence lock, which all have in common, and the journal. */
#include "fxmark.h"

char *testcase_description = "rename a file in the task's own directory";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[2][PATH_MAX];

	make_own_directory(nr);
	path_of(path[0], "%lu/0", nr);
	path_of(path[1], "%lu/1", nr);
	create_file(path[0]);

	for (int now = 0;; now = !now) {
		if (rename(path[now], path[!now]))
			die("MWRL: rename");
		(*iterations)++;
	}
}
