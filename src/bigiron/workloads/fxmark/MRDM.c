// SPDX-License-Identifier: GPL-2.0-or-later
/* One directory's i_rwsem, which readers share, and its atime. */
#include "fxmark.h"

char *testcase_description = "read the 32 entries of a shared directory";

void testcase_prepare(unsigned long nr_tasks)
{
	char path[PATH_MAX];

	(void)nr_tasks;
	make_folder();
	path_of(path, "shared");
	make_directory(path);
	make_files(path);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[PATH_MAX];

	(void)nr;
	path_of(path, "shared");
	while (1) {
		read_directory(path);
		(*iterations)++;
	}
}
