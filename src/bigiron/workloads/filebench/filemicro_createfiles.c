// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes and directory entries that are made in one directory, its lock, and a new page. */
/* As filemicro_createfiles.f; a task that has made its own removes them. */
#include "new_files.h"

char *testcase_description = "create a file of 1 KiB, all in one directory";
char *testcase_differs = "1,024 files for each task";

void testcase_prepare(unsigned long nr_tasks)
{
	make_parents(nr_tasks, 0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	for (unsigned long index = 0;; index++) {
		index = with_room(nr, index);
		make_file(nr, index, KIB);
		(*iterations)++;
	}
}
