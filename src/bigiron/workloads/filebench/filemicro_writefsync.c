// SPDX-License-Identifier: GPL-2.0-or-later
/* New pages at the end of a file, then fsync: allocation on the disk, the journal or the log. */
/* As filemicro_writefsync.f. */
#include "large_file.h"

char *testcase_description = "append 8 KiB to a file 16 times, and fsync";
char *testcase_differs = "16 appends instead of 1,024 before each fsync";

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
		for (int appends = 0; appends < 16; appends++)
			append_within(fd, 8 * KIB);
		sync_file(fd);
		(*iterations)++;
	}
}
