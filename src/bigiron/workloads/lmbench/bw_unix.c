// SPDX-License-Identifier: GPL-2.0-or-later
/* A pair of Unix sockets: sk_buffs of many pages, queues, memory accounting; copies; sleep, wake-up and switch. */
/* As bw_unix, whose reader also asks for each 10 MiB by a pipe. */
#include "bandwidth.h"

char *testcase_description = "read 64 KiB that a process on the same CPU writes to a Unix socket";
char *testcase_differs = "both processes of the pair on one CPU";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd[2];

	(void)nr;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		die("bw_unix: socketpair");
	read_messages(iterations, fd[0], &fd[1]);
}
