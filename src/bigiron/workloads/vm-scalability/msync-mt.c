// SPDX-License-Identifier: GPL-2.0-or-later
/* Dirty pages of one file on a disk, in one mapping: faults after each write-back, locks of folios and of the file. */
/* As case-msync-mt, for threads. */
#define WRITES 1
#define BYTES (1UL << 20)
#include "usemem.h"

char *testcase_description = "write to all pages of a file on a disk, mapped by all threads, and msync";
char *testcase_differs = "1 MiB that all threads write and sync again and again";

static volatile char *memory;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	memory = map_file(make_file_on_disk());
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		for (unsigned long page = 0; page < pages; page += AT_ONCE)
			touch_some(memory, page);
		sync_pages(memory);
		(*iterations)++;
	}
}
