// SPDX-License-Identifier: GPL-2.0-or-later
/* New pages of the task's own file: their allocation, charge and LRU list; the inode's lock. */
/* As disk_wrt(); sync() instead of a shell that calls it. */
#include "disk.h"

char *testcase_description = "write the next 1 KiB of the task's own file";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	write_files(iterations, nr, 0, 2, NO_FILE);
}

void testcase_cleanup(void)
{
	remove_folder();
}
