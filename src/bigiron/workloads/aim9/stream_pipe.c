// SPDX-License-Identifier: GPL-2.0-or-later
/* Unix stream sockets of the task's own: their queues, wake-ups, memory accounting, and sk_buffs. */
/* As stream_pipe(): a message is an operation. */
#include "messages.h"

#include <sys/socket.h>

char *testcase_description = "pass 1 to 4,096 bytes through a pair of stream sockets of the task's own";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd[2];

	(void)nr;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		die("stream_pipe: socketpair");
	pass_messages(iterations, fd[1], fd[0]);
}
