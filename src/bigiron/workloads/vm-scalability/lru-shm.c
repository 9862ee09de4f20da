// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of the task's own shmem file: allocation, charge, its statistics, the page cache, LRU lists. */
/* As case-lru-shm. */
#include "usemem.h"

char *testcase_description = "fault in 16 pages of the task's own file on tmpfs, in address order";
char *testcase_differs = "no reclaim: a file of 16 MiB is truncated and read again";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = make_sparse_file("/dev/shm");

	(void)nr;
	use_memory(iterations, map_file(fd), fd);
}
