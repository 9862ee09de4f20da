// SPDX-License-Identifier: GPL-2.0-or-later
/* The directory's i_rwsem, its blocks, the atime. */
#include "fxmark.h"

char *testcase_description = "read the 32 entries of the task's own directory";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[PATH_MAX];

	make_own_directory(nr);
	path_of(path, "%lu", nr);
	make_files(path);
	while (1) {
		read_directory(path);
		(*iterations)++;
	}
}
