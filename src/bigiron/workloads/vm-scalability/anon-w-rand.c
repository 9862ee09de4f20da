// SPDX-License-Identifier: GPL-2.0-or-later
/* Anonymous pages, huge ones where they are on: allocation, zeroing, charge, LRU lists, page tables. */
/* As case-anon-w-rand. */
#define WRITES 1
#define RANDOM 1
#include "usemem.h"

char *testcase_description = "fault in 16 pages of the task's own memory by writes, in random order";
char *testcase_differs = "16 MiB for each task, again and again";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	use_memory(iterations, map_zeros(0), NO_FILE);
}
