// SPDX-License-Identifier: GPL-2.0-or-later
/* Anonymous pages of one mapping: its lock, one page table and its locks, allocation, charge, LRU lists. */
/* As case-anon-wx-seq-mt, for threads, each of which drops all pages when it has written them. */
#define WRITES 1
#include "usemem.h"

char *testcase_description = "fault in 16 pages of memory that all threads share by writes, in address order";
char *testcase_differs = "16 MiB for all threads, again and again";

static volatile char *memory;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	memory = map_zeros(0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	use_memory(iterations, memory, NO_FILE);
}
