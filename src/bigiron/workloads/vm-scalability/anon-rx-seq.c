// SPDX-License-Identifier: GPL-2.0-or-later
/* The page of zeros in one mapping: the mapping's lock, one page table and its locks. */
/* As case-anon-rx-seq-mt, for threads, each of which drops all pages when it has read them. */
#include "usemem.h"

char *testcase_description = "fault in 16 pages of memory that all threads share by reads, in address order";
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
