// SPDX-License-Identifier: GPL-2.0-or-later
/* An sk_buff and its accounting to the socket, the receive queue's lock, the peer's wait queue, LSM's hooks. */
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

char *testcase_description = "write one byte to the task's own Unix socket pair and read it back";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char byte = 0;
	int fd[2];

	(void)nr;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		die("unix1: socketpair");

	while (1) {
		if (write(fd[1], &byte, 1) != 1)
			die("unix1: write");
		if (read(fd[0], &byte, 1) != 1)
			die("unix1: read");
		(*iterations)++;
	}
}
