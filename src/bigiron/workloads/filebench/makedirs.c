// SPDX-License-Identifier: GPL-2.0-or-later
/* Directories that are made: the inode lock of the one above, which tasks share; dentries and inodes. */
/* As makedirs.f; a task that has made its own removes them. */
#include "directories.h"

char *testcase_description = "make an empty directory, a hundred in each one above";
char *testcase_differs = "1,024 directories for each task instead of 10,000 for all";

void testcase_prepare(unsigned long nr_tasks)
{
	make_parents(nr_tasks);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	for (unsigned long index = 0;; index++) {
		/* There must be an end to them: a part of the operation that comes next. */
		if (index == EACH)
			while (index)
				remove_one_of_them(nr, --index);
		make_one(nr, index);
		(*iterations)++;
	}
}
