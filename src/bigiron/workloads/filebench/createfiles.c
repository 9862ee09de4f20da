// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes and directory entries that are made, the lock of their directory, and new pages. */
/* As createfiles.f; a task that has made its own removes them. */
#include "new_files.h"

char *testcase_description = "create a file of 16 KiB, a hundred in each directory";
char *testcase_differs = "1,024 files for each task instead of 50,000 for all";

void testcase_prepare(unsigned long nr_tasks)
{
	make_parents(nr_tasks, 100);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	for (unsigned long index = 0;; index++) {
		index = with_room(nr, index);
		make_file(nr, index, 16 * KIB);
		(*iterations)++;
	}
}
