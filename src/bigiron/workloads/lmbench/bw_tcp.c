// SPDX-License-Identifier: GPL-2.0-or-later
/* A TCP connection over loopback, one way: sk_buffs and their pages, segments, both sockets' queues, softirq. */
/* As bw_tcp -m 10m localhost. */
#ifndef MESSAGE
#define MESSAGE (10UL << 20)
#endif
#include "bandwidth.h"

char *testcase_description = "read 64 KiB of 10 MiB that a process on the same CPU sends by TCP";
char *testcase_differs = "reads of 64 KiB instead of 10 MiB, and both processes of the pair on one CPU";

/* The kernel allows less (net.core.rmem_max, wmem_max), and does not adapt the size any more. */
static void set_buffer(int fd, int option)
{
	int bytes = 1 << 20;

	if (setsockopt(fd, SOL_SOCKET, option, &bytes, sizeof(bytes)))
		die("bw_tcp: setsockopt");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct sockaddr_in address;
	int listener = bound_socket(SOCK_STREAM, &address), from = socket(AF_INET, SOCK_STREAM, 0), to;

	(void)nr;
	set_buffer(listener, SO_SNDBUF); /* and of the connection that is accepted */
	set_buffer(from, SO_RCVBUF);
	set_buffer(from, SO_SNDBUF);
	if (listen(listener, 1) || connect(from, (void *)&address, sizeof(address)))
		die("bw_tcp: connect");
	to = accept(listener, NULL, NULL);
	if (to < 0)
		die("bw_tcp: accept");
	read_messages(iterations, from, &to);
}
