// SPDX-License-Identifier: GPL-2.0-or-later
/* The reference count of one page. */
#include "fxmark.h"

char *testcase_description = "read the same block of a shared file";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_shared_file(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char own[BLOCK];
	int fd = open_shared_file();

	(void)nr;
	while (1) {
		if (pread(fd, own, BLOCK, 0) != BLOCK)
			die("DRBH: pread");
		(*iterations)++;
	}
}
