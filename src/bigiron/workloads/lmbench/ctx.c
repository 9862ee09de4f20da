// SPDX-License-Identifier: GPL-2.0-or-later
/* Sleep, wake-up and switch: run queues, a ring of pipes, their mutexes and wait queues; page tables. */
/* As lat_ctx -s 0. */
#include "lmbench.h"

char *testcase_description = "pass a token around a ring of 16 processes on the same CPU";
char *testcase_differs = "a ring of 16 processes on one CPU instead of 96 on all";

#define RING 16

static void *pass_on(void *arg)
{
	struct ends *ends = arg;
	int token;

	while (1)
		if (read(ends->from, &token, sizeof(token)) != sizeof(token) ||
		    write(ends->to, &token, sizeof(token)) != sizeof(token))
			die("ctx: read or write");
	return NULL;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct ends partners[RING - 1];
	int pipes[RING][2], token = 0;

	(void)nr;
	for (int process = 0; process < RING; process++)
		if (pipe(pipes[process]))
			die("ctx: pipe");
	for (int process = 0; process < RING - 1; process++) {
		partners[process] = (struct ends){ .from = pipes[process][0], .to = pipes[process + 1][1] };
		new_task(pass_on, &partners[process]);
	}
	while (1) {
		if (write(pipes[0][1], &token, sizeof(token)) != sizeof(token) ||
		    read(pipes[RING - 1][0], &token, sizeof(token)) != sizeof(token))
			die("ctx: read or write");
		(*iterations)++;
	}
}
