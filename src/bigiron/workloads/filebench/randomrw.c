// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads and writes of the cached pages of one file, and its inode lock. */
/* As randomrw.f; tasks with an even number read, the others write. */
#include "large_file.h"

char *testcase_description = "read or write 8 KiB at a random place of a shared file";
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
		if (nr % 2)
			write_random(fd, 8 * KIB);
		else
			read_random(fd, 8 * KIB);
		(*iterations)++;
	}
}
