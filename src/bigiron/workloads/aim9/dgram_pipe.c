// SPDX-License-Identifier: GPL-2.0-or-later
/* Unix datagram sockets of the task's own: their queues, wake-ups, memory accounting, and sk_buffs. */
/* As dgram_pipe(): a message is an operation. */
#include "messages.h"

#include <sys/socket.h>

char *testcase_description = "pass 1 to 4,096 bytes through a pair of datagram sockets of the task's own";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd[2];

	(void)nr;
	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, fd))
		die("dgram_pipe: socketpair");
	pass_messages(iterations, fd[1], fd[0]);
}
