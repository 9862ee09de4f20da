// SPDX-License-Identifier: GPL-2.0-or-later
/* The journal's or log's commit, which tasks wait for. */
#include "fxmark.h"

char *testcase_description = "overwrite a block of the task's own file, and fsync";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_own_file(nr, 1);

	while (1) {
		write_block(fd, 0);
		if (fsync(fd))
			die("DWSL: fsync");
		(*iterations)++;
	}
}
