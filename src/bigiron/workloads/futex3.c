// SPDX-License-Identifier: GPL-2.0-or-later
/* The key of a private futex, a look at its hash bucket; no lock. */
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

char *testcase_description = "FUTEX_WAKE_PRIVATE of the task's own futex, on which no task waits";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	/* Written by the task: after fork() the page would else be shared with the others. */
	volatile uint32_t word = 0;

	(void)nr;

	while (1) {
		if (syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0))
			die("futex3: futex");
		(*iterations)++;
	}
}
