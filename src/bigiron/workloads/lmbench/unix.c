// SPDX-License-Identifier: GPL-2.0-or-later
/* Sleep, wake-up and switch; a pair of Unix sockets: their queues, locks and memory accounting. */
/* As lat_unix. */
#include "lmbench.h"

char *testcase_description = "pass a byte to a process on the same CPU and back by Unix sockets";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct ends partner_s;
	int fd[2];

	(void)nr;
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		die("unix: socketpair");
	partner_s = (struct ends){ fd[0], fd[0] };
	pass_token(iterations, (struct ends){ fd[1], fd[1] }, &partner_s);
}
