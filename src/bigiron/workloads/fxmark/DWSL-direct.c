// SPDX-License-Identifier: GPL-2.0-or-later
/* The journal's or log's commit, with the data on the disk already. */
#define DIRECT O_DIRECT
#include "fxmark.h"

#include <string.h>

char *testcase_description = "overwrite a block of the task's own file, and fsync, past the page cache";

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
		if (fsync(fd))
			die("DWSL-direct: fsync");
		(*iterations)++;
	}
}
