// SPDX-License-Identifier: GPL-2.0-or-later
/* Long writes of new pages at the ends of five files: allocation, charge and LRU lists; the inode locks. */
/* As fivestreamwrite.f. */
#include "large_file.h"

char *testcase_description = "write the next 64 KiB of one of five shared files, which grow";
char *testcase_differs = "pieces of 64 KiB instead of 1 MiB, and files that are truncated at 16 MiB";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_large_files(STREAMS, STREAM);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	write_stream(iterations, open_numbered_file(nr % STREAMS, O_RDWR), 4 * STREAM);
}
