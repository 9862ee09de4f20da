// SPDX-License-Identifier: GPL-2.0-or-later
/* User space: additions to one counter, of which those that coincide are lost. */

char *testcase_description = "add to a counter that all threads share, by load and store";

static volatile unsigned long counter;

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		counter++;
		(*iterations)++;
		/* Without it, the compiler keeps the number of iterations in a register for ever. */
		__asm__ volatile("" ::: "memory");
	}
}
