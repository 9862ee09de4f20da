// SPDX-License-Identifier: GPL-2.0-or-later
/* The task's own signal queue and handlers: sighand's lock, its user's count of pending signals. */
/* As lat_sig catch. */
#include "lmbench.h"

char *testcase_description = "send oneself a signal and handle it";

static void handle(int number)
{
	(void)number;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct sigaction action = { .sa_handler = handle };

	(void)nr;
	sigaction(SIGUSR1, &action, NULL);
	while (1) {
		if (kill(getpid(), SIGUSR1))
			die("signal: kill");
		(*iterations)++;
	}
}
