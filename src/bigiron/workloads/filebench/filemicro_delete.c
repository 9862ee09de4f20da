// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes and directory entries that go, the lock of their directory, pages that are given back; RCU. */
/* As filemicro_delete.f; a task that has removed its own makes them again. */
#include "new_files.h"

char *testcase_description = "delete a file of 16 KiB, one of a hundred in its directory";
char *testcase_differs = "1,024 files for each task";

static void make_all(unsigned long nr)
{
	for (unsigned long index = 0; index < EACH; index++)
		make_file(nr, index, 16 * KIB);
}

void testcase_prepare(unsigned long nr_tasks)
{
	make_parents(nr_tasks, 100);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	make_all(nr);
	for (unsigned long index = 0;; index++) {
		if (index == EACH) {
			make_all(nr);
			index = 0;
		}
		remove_file(nr, index);
		(*iterations)++;
	}
}
