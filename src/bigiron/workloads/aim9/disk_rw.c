// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of the task's own file: short writes, new pages and dirty ones, the inode's lock. */
/* As disk_rw(), pass by pass as disk.h says. */
#include "disk.h"

char *testcase_description = "write 1 KiB of the task's own file, and 1 KiB at a random place";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct disk disk = begin_disk(nr, O_WRONLY, 2);

	while (1) {
		seek_random(&disk, disk.fd);
		write_block(disk.fd);
		next_block(&disk);
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	remove_folder();
}
