// SPDX-License-Identifier: GPL-2.0-or-later
/* One directory's i_rwsem, and what making an inode takes. */
#include "fxmark.h"

char *testcase_description = "create a file in a shared directory";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_shared_directory();
}

static void remove_files(unsigned long nr, unsigned long files)
{
	char path[PATH_MAX];

	for (unsigned long file = 0; file < files; file++) {
		path_of(path, "shared/%lu.%lu", nr, file);
		if (unlink(path))
			die("MWCM: unlink");
	}
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[PATH_MAX];

	for (unsigned long file = 0;; file++) {
		/* There must be an end to them: a part of the operation that comes next. */
		if (file == 16 * OFTEN) {
			remove_files(nr, file);
			file = 0;
		}
		path_of(path, "shared/%lu.%lu", nr, file);
		create_file(path);
		(*iterations)++;
	}
}
