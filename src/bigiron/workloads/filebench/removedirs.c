// SPDX-License-Identifier: GPL-2.0-or-later
/* Directories that go: the inode lock of the one above, which tasks share; dentries, inodes, RCU. */
/* As removedirs.f; a task that has removed its own makes them again. */
#include "directories.h"

char *testcase_description = "remove an empty directory, one of a hundred";
char *testcase_differs = "1,024 directories for each task instead of 10,000 for all";

void testcase_prepare(unsigned long nr_tasks)
{
	make_parents(nr_tasks);
	for (unsigned long nr = 0; nr < nr_tasks; nr++)
		for (unsigned long index = 0; index < EACH; index++)
			make_one(nr, index);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	for (unsigned long index = 0;; index++) {
		/* There must be an end to them: a part of the operation that comes next. */
		if (index == EACH)
			while (index)
				make_one(nr, --index);
		remove_one_of_them(nr, index);
		(*iterations)++;
	}
}
