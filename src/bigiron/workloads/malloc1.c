// SPDX-License-Identifier: GPL-2.0-or-later
/* So much that malloc() maps and unmaps: mmap_lock for writing, the accounting of memory, one fault. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN (128UL << 20)

char *testcase_description = "malloc and free 128 MiB, whose first page the allocator touches";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		volatile char *mem = malloc(LEN);

		if (!mem)
			die("malloc1: malloc");
		free((void *)mem);
		(*iterations)++;
	}
}
