// SPDX-License-Identifier: GPL-2.0-or-later
/* The key of a process-shared futex (a page reference), its hash bucket's lock and count of waiters. */
#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

char *testcase_description = "FUTEX_WAIT on the task's own futex, which has another value";

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
		if (syscall(SYS_futex, &word, FUTEX_WAIT, 1, NULL, NULL, 0) != -1 || errno != EAGAIN)
			die("futex2: futex");
		(*iterations)++;
	}
}
