// SPDX-License-Identifier: GPL-2.0-or-later
/* The path walk: dentries and directories of the task's own. */
#include "fxmark.h"

char *testcase_description = "stat a file in four directories of the task's own";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[PATH_MAX], top[24];
	struct stat status;

	snprintf(top, sizeof(top), "%lu", nr);
	make_deep_file(top);
	path_of(path, "%s/0/0/0/0", top);

	while (1) {
		if (stat(path, &status))
			die("MRPL: stat");
		(*iterations)++;
	}
}
