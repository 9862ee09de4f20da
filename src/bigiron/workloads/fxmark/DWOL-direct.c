// SPDX-License-Identifier: GPL-2.0-or-later
/* The disk's queue, the inode's lock and times. */
#define DIRECT O_DIRECT
#include "fxmark.h"

#include <string.h>

char *testcase_description = "overwrite the same block of the task's own file, past the page cache";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_own_file(nr, 1);

	/* Else it is the page of zeros, whose reference count all tasks write. */
	memset(block, 'x', BLOCK);
	while (1) {
		write_block(fd, 0);
		(*iterations)++;
	}
}
