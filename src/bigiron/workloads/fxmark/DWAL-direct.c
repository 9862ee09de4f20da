// SPDX-License-Identifier: GPL-2.0-or-later
/* The allocation of space, at once and not when it is written back. */
#define DIRECT O_DIRECT
#include "fxmark.h"

#include <string.h>

char *testcase_description = "append a block to the task's own file, past the page cache";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_own_file(nr, 0);

	/* Else it is the page of zeros, whose reference count all tasks write. */
	memset(block, 'x', BLOCK);
	for (unsigned long blocks = 0;; blocks++) {
		/* It must end somewhere: a part of the operation that comes next. */
		if (blocks == 4 * OFTEN) {
			if (ftruncate(fd, 0))
				die("DWAL-direct: ftruncate");
			blocks = 0;
		}
		write_block(fd, blocks);
		(*iterations)++;
	}
}
