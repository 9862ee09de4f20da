// SPDX-License-Identifier: GPL-2.0-or-later
/* New pages at the end of a file, ten appends and then fsync: the journal or the log. */
/* As filemicro_createrand.f. */
#include "large_file.h"

char *testcase_description = "append up to 64 KiB to a file ten times, and fsync";
char *testcase_differs = "pieces of 64 KiB instead of 1 MiB, and a file that is truncated at 64 MiB instead of 1 GiB";

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
		for (int appends = 0; appends < 10; appends++)
			append_within(fd, 1 + random_below(IO));
		sync_file(fd);
		(*iterations)++;
	}
}
