// SPDX-License-Identifier: GPL-2.0-or-later
/* Into the kernel and out: reads the parent's task_struct and struct pid, writes nothing. */
#include <unistd.h>

char *testcase_description = "getppid, a system call that only reads";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		getppid();
		(*iterations)++;
	}
}
