// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes that are made: the super block's lists and counters, the free inodes, the journal. */
#include "fxmark.h"

char *testcase_description = "create a file in the task's own directory";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

static void remove_files(unsigned long nr, unsigned long files)
{
	char path[PATH_MAX];

	for (unsigned long file = 0; file < files; file++) {
		path_of(path, "%lu/%lu", nr, file);
		if (unlink(path))
			die("MWCL: unlink");
	}
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[PATH_MAX];

	make_own_directory(nr);
	for (unsigned long file = 0;; file++) {
		/* There must be an end to them: a part of the operation that comes next. */
		if (file == 16 * OFTEN) {
			remove_files(nr, file);
			file = 0;
		}
		path_of(path, "%lu/%lu", nr, file);
		create_file(path);
		(*iterations)++;
	}
}
