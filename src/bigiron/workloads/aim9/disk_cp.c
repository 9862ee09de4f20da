// SPDX-License-Identifier: GPL-2.0-or-later
/* Cached pages of a file that all tasks read, and new pages of the task's own. */
/* As disk_cp(); sync() instead of a shell that calls it. */
#include "disk.h"

char *testcase_description = "copy 1 KiB of a shared file to the task's own";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_original();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	write_files(iterations, nr, 0, 3, open_original());
}

void testcase_cleanup(void)
{
	remove_folder();
}
