// SPDX-License-Identifier: GPL-2.0-or-later
/* Cached pages of a file on tmpfs in one mapping: the map counts, its lock, one page table and its locks. */
/* As case-shm-xread-seq-mt, for threads, each of which drops all pages when it has read them. */
#include "usemem.h"

char *testcase_description = "fault in 16 pages of a tmpfs file, mapped by all threads, in address order";
char *testcase_differs = "a file of 16 MiB, again and again";

static volatile char *memory;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	memory = map_file(make_sparse_file("/dev/shm"));
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	use_memory(iterations, memory, NO_FILE);
}
