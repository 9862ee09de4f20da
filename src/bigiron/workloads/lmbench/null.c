// SPDX-License-Identifier: GPL-2.0-or-later
/* The system call itself: entry and exit, a task that is only read. */
/* As lat_syscall null. */
#include "lmbench.h"

char *testcase_description = "getppid, as lat_syscall's null";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		getppid();
		(*iterations)++;
	}
}
