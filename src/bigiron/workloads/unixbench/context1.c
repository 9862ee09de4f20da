// SPDX-License-Identifier: GPL-2.0-or-later
/* Sleep, wake-up and switch: run queues, two pipes' mutexes and wait queues. */
/* As context1.c: 8 bytes there and back. */
#include "unixbench.h"

char *testcase_description = "pass 8 bytes to a process on the same CPU and back, two switches";
char *testcase_differs = "both processes of the pair on one CPU";

extern void new_task(void *(*func)(void *), void *arg);

static void pass_on(int from, int to)
{
	unsigned long number;

	if (read(from, &number, sizeof(number)) != sizeof(number) || write(to, &number, sizeof(number)) != sizeof(number))
		die("context1: read or write");
}

static void *slave(void *arg)
{
	int (*pipes)[2] = arg;

	while (1)
		pass_on(pipes[0][0], pipes[1][1]);
	return NULL;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	unsigned long number = 0;
	int pipes[2][2];

	(void)nr;
	if (pipe(pipes[0]) || pipe(pipes[1]))
		die("context1: pipe");
	new_task(slave, pipes);
	if (write(pipes[0][1], &number, sizeof(number)) != sizeof(number))
		die("context1: write");
	while (1) {
		pass_on(pipes[1][0], pipes[0][1]);
		(*iterations)++;
	}
}
