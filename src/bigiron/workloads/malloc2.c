// SPDX-License-Identifier: GPL-2.0-or-later
/* Nothing in the kernel: the allocator's own lists in user space. Any count is the baseline's. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 1024

char *testcase_description = "malloc and free 1 KiB, in user space";

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
			die("malloc2: malloc");
		free((void *)mem);
		(*iterations)++;
	}
}
