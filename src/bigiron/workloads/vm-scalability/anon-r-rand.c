// SPDX-License-Identifier: GPL-2.0-or-later
/* The page of zeros, the huge one where huge pages are on: its reference count; page tables, mmap_lock. */
/* As case-anon-r-rand. */
#define RANDOM 1
#include "usemem.h"

char *testcase_description = "fault in 16 pages of the task's own memory by reads, in random order";
char *testcase_differs = "16 MiB for each task, again and again";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	use_memory(iterations, map_zeros(0), NO_FILE);
}
