// SPDX-License-Identifier: GPL-2.0-or-later
/* mmap_lock for writing, VMA tree, the accounting of memory; the heap is never empty, so its VMA grows. */
#include <stdio.h>
#include <unistd.h>

char *testcase_description = "grow or shrink the heap by one page with brk, above a page that stays";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	size_t page = getpagesize();
	char *low = sbrk(page);
	char *high;

	(void)nr;
	if (low == (void *)-1)
		die("brk2: sbrk");
	low += page;
	high = low + page;

	/* Each of the two calls is an operation, as in will-it-scale. */
	while (1) {
		if (brk(high))
			die("brk2: brk up");
		if (brk(low))
			die("brk2: brk down");
		(*iterations) += 2;
	}
}
