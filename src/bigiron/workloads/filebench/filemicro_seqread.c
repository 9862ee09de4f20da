// SPDX-License-Identifier: GPL-2.0-or-later
/* Long reads from the page cache: the pages of one file, copied to the task. */
/* As filemicro_seqread.f. */
#include "large_file.h"

char *testcase_description = "read the next 64 KiB of a file";
char *testcase_differs = "pieces of 64 KiB instead of 1 MiB, and 16 MiB instead of 1 GiB, all of them cached";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_large_file(LARGE);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_large_file(O_RDWR);

	begin_task(nr);
	while (1) {
		read_next(fd);
		(*iterations)++;
	}
}
