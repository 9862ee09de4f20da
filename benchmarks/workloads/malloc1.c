// SPDX-License-Identifier: GPL-2.0-or-later
/* malloc of so much that it maps and unmaps: mmap_lock for writing, vm_committed_as, one page's fault. */
#include <stdlib.h>
#include <unistd.h>

#define BYTES (128UL << 20)

char *testcase_description = "malloc and free 128 MiB, whose first page the allocator touches";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		volatile char *memory = malloc(BYTES);

		if (!memory)
			_exit(1);
		free((void *)memory);
		(*iterations)++;
	}
}
