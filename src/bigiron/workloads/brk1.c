// SPDX-License-Identifier: GPL-2.0-or-later
/* mmap_lock for writing, the heap's VMA; vm_committed_as by one page, within its per-CPU batch. */
#include <stdio.h>
#include <unistd.h>

char *testcase_description = "grow or shrink the heap by one page with brk";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char *low = sbrk(0);
	char *high = low + getpagesize();

	(void)nr;
	if (low == (void *)-1)
		die("brk1: sbrk");

	/*
	 * Each of the two calls is an operation, as in will-it-scale. Threads have one break between them: there a
	 * call may find that another has already made it.
	 */
	while (1) {
		if (brk(high))
			die("brk1: brk up");
		if (brk(low))
			die("brk1: brk down");
		(*iterations) += 2;
	}
}
