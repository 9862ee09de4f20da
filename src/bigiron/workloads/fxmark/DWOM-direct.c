// SPDX-License-Identifier: GPL-2.0-or-later
/* The lock of one inode: some file systems share it among writers that overwrite. */
#define DIRECT O_DIRECT
#include "fxmark.h"

#include <string.h>

char *testcase_description = "overwrite the task's own block of a shared file, past the page cache";

void testcase_prepare(unsigned long nr_tasks)
{
	make_folder();
	make_shared_file(nr_tasks);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_shared_file();

	/* Else it is the page of zeros, whose reference count all tasks write. */
	memset(block, 'x', BLOCK);
	while (1) {
		write_block(fd, nr);
		(*iterations)++;
	}
}
