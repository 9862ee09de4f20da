// SPDX-License-Identifier: GPL-2.0-or-later
/* Cached pages of the task's own file: short reads, and the short writes that made it. */
/* As disk_rd(), pass by pass as disk.h says. */
#include "disk.h"

char *testcase_description = "write 1 KiB of the task's own file, and read the next 1 KiB";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct disk disk = begin_disk(nr, O_RDONLY, 2);

	while (1) {
		read_block(disk.fd);
		next_block(&disk);
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	remove_folder();
}
