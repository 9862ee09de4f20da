// SPDX-License-Identifier: GPL-2.0-or-later
/* The super block's s_vfs_rename_mutex, the i_rwsem of a directory that all change. */
#include "fxmark.h"

char *testcase_description = "move a file to a shared directory, the next time back";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_shared_directory();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[2][PATH_MAX];

	make_own_directory(nr);
	path_of(path[0], "%lu/file", nr);
	path_of(path[1], "shared/%lu", nr);
	create_file(path[0]);

	for (int now = 0;; now = !now) {
		if (rename(path[now], path[!now]))
			die("MWRM: rename");
		(*iterations)++;
	}
}
