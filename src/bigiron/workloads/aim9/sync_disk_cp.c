// SPDX-License-Identifier: GPL-2.0-or-later
/* Cached pages of a file that all tasks read; new pages, written back at once: the journal or the log. */
/* As sync_disk_cp(). */
#include "disk.h"

char *testcase_description = "copy 1 KiB of a shared file to the task's own with O_SYNC";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_original();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	write_files(iterations, nr, O_SYNC, 0, open_original());
}

void testcase_cleanup(void)
{
	remove_folder();
}
