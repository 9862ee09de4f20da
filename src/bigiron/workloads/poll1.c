// SPDX-License-Identifier: GPL-2.0-or-later
/* The descriptor table and the struct file; a file is always ready, and no wait queue is entered. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "poll the task's own file for writing, without waiting";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/poll1.XXXXXX";
	int fd = mkstemp(path);

	(void)nr;
	if (fd < 0 || unlink(path))
		die("poll1: mkstemp");

	while (1) {
		struct pollfd polled = { .fd = fd, .events = POLLOUT };

		if (poll(&polled, 1, 0) != 1)
			die("poll1: poll");
		(*iterations)++;
	}
}
