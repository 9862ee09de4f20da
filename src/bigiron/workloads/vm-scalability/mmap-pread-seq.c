// SPDX-License-Identifier: GPL-2.0-or-later
/* Cached pages of a file that all tasks map: their map and reference counts, fault-around. */
/* As case-mmap-pread-seq. */
#include "usemem.h"

char *testcase_description = "fault in 16 cached pages of a shared file, in address order";
char *testcase_differs = "a file of 16 MiB";

static int file;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	file = make_sparse_file("/tmp");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	use_memory(iterations, map_file(file), NO_FILE);
}
