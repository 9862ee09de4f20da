// SPDX-License-Identifier: GPL-2.0-or-later
/* The CPU's run queue lock and a pass through schedule(), which picks the same task again. */
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

char *testcase_description = "sched_yield with no other runnable task";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		if (sched_yield())
			die("sched_yield: sched_yield");
		(*iterations)++;
	}
}
