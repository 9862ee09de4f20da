// SPDX-License-Identifier: GPL-2.0-or-later
/* The path walk: the lockref of one dentry, the reference counts of one path. */
#include "fxmark.h"

char *testcase_description = "stat the same file in four directories";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_deep_file("0");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[PATH_MAX];
	struct stat status;

	(void)nr;
	path_of(path, "0/0/0/0/0");
	while (1) {
		if (stat(path, &status))
			die("MRPH: stat");
		(*iterations)++;
	}
}
