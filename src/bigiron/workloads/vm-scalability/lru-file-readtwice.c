// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of the task's own file on a disk, read twice: read-ahead, allocation, charge, both LRU lists. */
/* As case-lru-file-readtwice. */
#include "usemem.h"

char *testcase_description = "read 64 KiB of the task's own file on a disk, each piece twice";
char *testcase_differs = "no reclaim: a file of 16 MiB is truncated and read again, in calls of 64 KiB, by one process";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	read_file(iterations, make_file_on_disk(), 2);
}
