// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes into cached pages: dirty pages of one file, and its inode lock. */
/* As randomwrite.f. */
#include "large_file.h"

char *testcase_description = "write 8 KiB at a random place of a shared file";
char *testcase_differs = "16 MiB instead of 5 GiB, all of them cached";

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
		write_random(fd, 8 * KIB);
		(*iterations)++;
	}
}
