// SPDX-License-Identifier: GPL-2.0-or-later
/* The inode's lock, the mtime and what the journal has of it. */
#include "fxmark.h"

char *testcase_description = "overwrite the same block of the task's own file";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_own_file(nr, 1);

	while (1) {
		write_block(fd, 0);
		(*iterations)++;
	}
}
