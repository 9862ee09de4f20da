// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes that are given up: the super block's lists and counters, orphans, the journal. */
#include "fxmark.h"

char *testcase_description = "unlink a file in the task's own directory";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

static void create_files(unsigned long nr)
{
	char path[PATH_MAX];

	for (unsigned long file = 0; file < OFTEN; file++) {
		path_of(path, "%lu/%lu", nr, file);
		create_file(path);
	}
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[PATH_MAX];

	make_own_directory(nr);
	while (1) {
		/* The first time before any operation, then a part of the one that comes next. */
		create_files(nr);
		for (unsigned long file = 0; file < OFTEN; file++) {
			path_of(path, "%lu/%lu", nr, file);
			if (unlink(path))
				die("MWUL: unlink");
			(*iterations)++;
		}
	}
}
