// SPDX-License-Identifier: GPL-2.0-or-later
/* Short writes into cached pages: dirty pages of one file, and its inode lock. */
/* As filemicro_rwrite.f. */
#include "large_file.h"

char *testcase_description = "write 2 KiB at a random place of a file";
char *testcase_differs = "16 MiB instead of 1 GiB, all of them cached";

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
		write_random(fd, 2 * KIB);
		(*iterations)++;
	}
}
