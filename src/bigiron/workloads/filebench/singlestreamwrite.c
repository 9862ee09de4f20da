// SPDX-License-Identifier: GPL-2.0-or-later
/* Long writes of new pages at the end of one file: their allocation, charge and LRU list; the inode lock. */
/* As singlestreamwrite.f. */
#include "large_file.h"

char *testcase_description = "write the next 64 KiB of a shared file that grows";
char *testcase_differs = "pieces of 64 KiB instead of 1 MiB, and a file that is truncated at 64 MiB";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_large_file(0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	write_stream(iterations, open_large_file(O_RDWR), LONGEST);
}
