// SPDX-License-Identifier: GPL-2.0-or-later
/* New pages that are written back at once: blocks of the disk, the journal or the log. */
/* As sync_disk_wrt(). */
#include "disk.h"

char *testcase_description = "write the next 1 KiB of the task's own file with O_SYNC";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	write_files(iterations, nr, O_SYNC, 0, NO_FILE);
}

void testcase_cleanup(void)
{
	remove_folder();
}
