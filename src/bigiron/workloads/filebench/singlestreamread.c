// SPDX-License-Identifier: GPL-2.0-or-later
/* Long reads from the page cache: the pages of one file, copied to the task. */
/* As singlestreamread.f. */
#include "large_file.h"

char *testcase_description = "read the next 64 KiB of a shared file";
char *testcase_differs = "pieces of 64 KiB instead of 1 MiB, and 16 MiB instead of 5 GiB";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_large_file(LARGE);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	read_stream(iterations, open_large_file(O_RDWR));
}
