// SPDX-License-Identifier: GPL-2.0-or-later
/* New pages at the end of a file, and pages that are only filled up; the inode lock. */
/* As filemicro_seqwriterand.f. */
#include "large_file.h"

char *testcase_description = "append up to 8 KiB to a file";
char *testcase_differs = "a file that is truncated at 64 MiB, and stays open";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_large_file(0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_large_file(O_RDWR);

	begin_task(nr);
	while (1) {
		append_within(fd, 1 + random_below(8 * KIB));
		(*iterations)++;
	}
}
