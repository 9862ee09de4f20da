// SPDX-License-Identifier: GPL-2.0-or-later
/* 100 descriptors of one struct file: its reference count, and its poll(). */
/* As lat_select -n 100 file. */
#include "lmbench.h"

char *testcase_description = "select on 100 descriptors of the task's own file";

#define DESCRIPTORS 100
#ifndef OF_TCP
#define OF_TCP 0
#endif

static int open_file(void)
{
	char path[] = "/tmp/lmbench.XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || unlink(path))
		die("select: mkstemp");
	return fd;
}

/* To a listener of the task's own, which the original has in another process. */
static int open_connection(void)
{
	struct sockaddr_in address;

	if (listen(bound_socket(SOCK_STREAM, &address), 1))
		die("select: listen");
	return connected_socket(&address);
}

static int make_set(fd_set *set)
{
	int fd = OF_TCP ? open_connection() : open_file(), last = 0;

	FD_ZERO(set);
	for (int nr = 0; nr < DESCRIPTORS; nr++) {
		last = dup(fd);
		if (last < 0)
			die("select: dup");
		if (last >= FD_SETSIZE) {
			fputs("select: no room in an fd_set for descriptors of so many threads: use processes\n", stderr);
			_exit(1);
		}
		FD_SET(last, set);
	}
	return last + 1;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	fd_set set, readable;
	int end = make_set(&set);

	(void)nr;
	while (1) {
		struct timeval none = { 0 };

		readable = set;
		if (select(end, NULL, &readable, NULL, &none) != DESCRIPTORS)
			die("select: select");
		(*iterations)++;
	}
}
