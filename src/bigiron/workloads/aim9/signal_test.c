// SPDX-License-Identifier: GPL-2.0-or-later
/* The task's own signal queue and handlers: sighand's lock, its user's count of pending signals. */
/* As signal_test(): the handler sets itself again, and a signal is an operation. */
#include "aim9.h"

char *testcase_description = "send oneself a signal, whose handler sets itself again";

static void handle(int number)
{
	signal(number, handle);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	signal(SIGUSR2, handle);
	while (1) {
		if (kill(getpid(), SIGUSR2))
			die("signal_test: kill");
		(*iterations)++;
	}
}
