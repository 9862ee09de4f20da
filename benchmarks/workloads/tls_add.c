// SPDX-License-Identifier: GPL-2.0-or-later
/* User space: each thread has a counter of its own. */

char *testcase_description = "add to the thread's own counter";

static _Thread_local volatile unsigned long counter;

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
