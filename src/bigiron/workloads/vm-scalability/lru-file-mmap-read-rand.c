// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of the task's own file on a disk: read-ahead, allocation, charge, the page cache, LRU lists. */
/* As case-lru-file-mmap-read-rand. */
#define RANDOM 1
#include "usemem.h"

char *testcase_description = "fault in 16 pages of the task's own file on a disk, in random order";
char *testcase_differs = "no reclaim: a file of 16 MiB is truncated and read again";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = make_file_on_disk();

	(void)nr;
	use_memory(iterations, map_file(fd), fd);
}
