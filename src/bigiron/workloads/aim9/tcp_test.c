// SPDX-License-Identifier: GPL-2.0-or-later
/* A TCP connection over loopback: sk_buffs, both sockets, the softirq, route and device counters. */
/* As tcp_test(), which sets TCP_NODELAY on the listener: a message is an operation. */
#include "messages.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

char *testcase_description = "send 1 to 4,096 bytes to oneself by TCP over loopback";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), from = socket(AF_INET, SOCK_STREAM, 0), to, on = 1;
	socklen_t length = sizeof(address);

	(void)nr;
	if (listener < 0 || from < 0 || bind(listener, (void *)&address, length) ||
	    getsockname(listener, (void *)&address, &length) ||
	    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) || listen(listener, 5) ||
	    connect(from, (void *)&address, length))
		die("tcp_test: socket");
	to = accept(listener, NULL, NULL);
	if (to < 0)
		die("tcp_test: accept");
	pass_messages(iterations, to, from);
}
