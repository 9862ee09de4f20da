// SPDX-License-Identifier: GPL-2.0-or-later
/* One directory's i_rwsem, and what giving up an inode takes. */
#include "fxmark.h"

char *testcase_description = "unlink a file in a shared directory";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_shared_directory();
}

static void create_files(unsigned long nr)
{
	char path[PATH_MAX];

	for (unsigned long file = 0; file < OFTEN; file++) {
		path_of(path, "shared/%lu.%lu", nr, file);
		create_file(path);
	}
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[PATH_MAX];

	while (1) {
		/* The first time before any operation, then a part of the one that comes next. */
		create_files(nr);
		for (unsigned long file = 0; file < OFTEN; file++) {
			path_of(path, "shared/%lu.%lu", nr, file);
			if (unlink(path))
				die("MWUM: unlink");
			(*iterations)++;
		}
	}
}
