// SPDX-License-Identifier: GPL-2.0-or-later
/* The inode's lock and count of reads under way, one block of the disk. */
#define DIRECT O_DIRECT
#include "fxmark.h"

char *testcase_description = "read the same block of a shared file, past the page cache";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_shared_file(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_shared_file();

	(void)nr;
	while (1) {
		read_block(fd, 0);
		(*iterations)++;
	}
}
