// SPDX-License-Identifier: GPL-2.0-or-later
/* User memory only (--scope user): a number that all tasks write begins in one page and ends in the next. */
char *testcase_description = "write a number that lies in two pages";

#define PAGE_BYTES 4096

static char pages[2 * PAGE_BYTES] __attribute__((aligned(PAGE_BYTES)));

void testcase(unsigned long long *iterations, unsigned long nr)
{
	volatile unsigned long *number = (void *)(pages + PAGE_BYTES - 4);

	while (1) {
		*number = nr;
		(*iterations)++;
		asm volatile("" : : : "memory"); /* the compiler stores both each time */
	}
}
