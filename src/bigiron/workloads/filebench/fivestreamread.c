// SPDX-License-Identifier: GPL-2.0-or-later
/* Long reads from the page cache: the pages of five files, copied to the tasks. */
/* As fivestreamread.f. */
#include "large_file.h"

char *testcase_description = "read the next 64 KiB of one of five shared files";
char *testcase_differs = "pieces of 64 KiB instead of 1 MiB, and 4 MiB instead of 1 GiB per file";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_large_files(STREAMS, STREAM);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	read_stream(iterations, open_numbered_file(nr % STREAMS, O_RDWR));
}
