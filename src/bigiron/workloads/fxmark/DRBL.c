// SPDX-License-Identifier: GPL-2.0-or-later
/* The page cache's lookup, the copy to user, the atime. */
#include "fxmark.h"

char *testcase_description = "read the same block of the task's own file";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_own_file(nr, 1);

	while (1) {
		read_block(fd, 0);
		(*iterations)++;
	}
}
