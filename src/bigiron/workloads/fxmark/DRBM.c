// SPDX-License-Identifier: GPL-2.0-or-later
/* The inode's lines that readers write, the page cache's tree of one file. */
#include "fxmark.h"

char *testcase_description = "read the task's own block of a shared file";

void testcase_prepare(unsigned long nr_tasks)
{
	make_folder();
	make_shared_file(nr_tasks);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_shared_file();

	while (1) {
		read_block(fd, nr);
		(*iterations)++;
	}
}
