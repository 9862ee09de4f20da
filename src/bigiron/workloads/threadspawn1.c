// SPDX-License-Identifier: GPL-2.0-or-later
/* clone() and exit() of a thread: task_struct, stack and signal_struct's list, tasklist_lock, PID, futex. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

char *testcase_description = "create a thread that returns at once, and join it";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static void *nothing(void *unused)
{
	return unused;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		pthread_t thread;

		errno = pthread_create(&thread, NULL, nothing, NULL);
		if (errno)
			die("threadspawn1: pthread_create");
		errno = pthread_join(thread, NULL);
		if (errno)
			die("threadspawn1: pthread_join");
		(*iterations)++;
	}
}
