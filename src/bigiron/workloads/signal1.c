// SPDX-License-Identifier: GPL-2.0-or-later
/* The siglock, a sigqueue counted in the user's ucounts, LSM's task_kill hook, rt_sigreturn(). */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

char *testcase_description = "send oneself a signal and handle it";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static void handler(int sig)
{
	(void)sig;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct sigaction act = { .sa_handler = handler };

	(void)nr;
	if (sigaction(SIGUSR1, &act, NULL))
		die("signal1: sigaction");

	/* The calls that raise() makes in glibc 2.36. */
	while (1) {
		pid_t tid = gettid();

		if (tgkill(getpid(), tid, SIGUSR1))
			die("signal1: tgkill");
		(*iterations)++;
	}
}
