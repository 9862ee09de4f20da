// SPDX-License-Identifier: GPL-2.0-or-later
/* The descriptor table and 128 struct files; files are always ready, and no wait queue is entered. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILES 128

char *testcase_description = "poll 128 files of the task's own for writing, without waiting";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* Threads have one descriptor table for all. */
void testcase_prepare(unsigned long nr_tasks)
{
	rlim_t least = (FILES + 10) * (nr_tasks + 1);
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		die("poll2: getrlimit");
	if (limit.rlim_cur >= least)
		return;
	limit.rlim_cur = least;
	if (limit.rlim_max < least)
		limit.rlim_max = least;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		die("poll2: setrlimit RLIMIT_NOFILE");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fds[FILES];

	(void)nr;
	for (int i = 0; i < FILES; i++) {
		char path[] = "/tmp/poll2.XXXXXX";

		fds[i] = mkstemp(path);
		if (fds[i] < 0 || unlink(path))
			die("poll2: mkstemp");
	}

	while (1) {
		struct pollfd polled[FILES];

		for (int i = 0; i < FILES; i++)
			polled[i] = (struct pollfd){ .fd = fds[i], .events = POLLOUT };
		if (poll(polled, FILES, 0) != FILES)
			die("poll2: poll");
		(*iterations)++;
	}
}
