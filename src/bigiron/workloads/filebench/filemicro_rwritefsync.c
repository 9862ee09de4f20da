// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes into cached pages, then fsync: write-back of many pages, the journal or the log. */
/* As filemicro_rwritefsync.f. */
#include "large_file.h"

char *testcase_description = "write 8 KiB at 32 random places of a file, and fsync";
char *testcase_differs = "16 MiB instead of 1 GiB, and 32 writes instead of 16,384 before each fsync";

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
		for (int writes = 0; writes < 32; writes++)
			write_random(fd, 8 * KIB);
		sync_file(fd);
		(*iterations)++;
	}
}
