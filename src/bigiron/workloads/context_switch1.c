// SPDX-License-Identifier: GPL-2.0-or-later
/* Sleep, wake-up, switch: the CPU's run queue lock, two pipes' mutexes and wait queues. */
#include <stdio.h>
#include <unistd.h>

char *testcase_description = "pass a byte to a helper on the same CPU and back, two switches";

extern void new_task(void *(*func)(void *), void *arg);

struct pipes {
	int there[2];
	int back[2];
};

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static void *helper(void *arg)
{
	struct pipes *pipes = arg;
	char byte;

	while (1) {
		if (read(pipes->there[0], &byte, 1) != 1)
			die("context_switch1: helper's read");
		if (write(pipes->back[1], &byte, 1) != 1)
			die("context_switch1: helper's write");
	}
	return NULL;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct pipes pipes;
	char byte = 0;

	(void)nr;
	if (pipe(pipes.there) || pipe(pipes.back))
		die("context_switch1: pipe");
	new_task(helper, &pipes);

	while (1) {
		if (write(pipes.there[1], &byte, 1) != 1)
			die("context_switch1: write");
		if (read(pipes.back[0], &byte, 1) != 1)
			die("context_switch1: read");
		(*iterations)++;
	}
}
