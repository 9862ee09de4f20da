// SPDX-License-Identifier: GPL-2.0-or-later
/* UDP over loopback: sk_buffs, the receiving socket's queue and memory, the softirq, route and device counters. */
/* As udp_test(): a datagram is an operation. */
#include "messages.h"

#include <netinet/in.h>

char *testcase_description = "send 1 to 4,096 bytes to oneself by UDP over loopback";

static int bound_socket(struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t length = sizeof(*address);

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (void *)address, length) || getsockname(fd, (void *)address, &length))
		die("udp_test: socket");
	return fd;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct sockaddr_in address;
	int to = bound_socket(&address), from = bound_socket(&address);

	(void)nr;
	if (connect(to, (void *)&address, sizeof(address)))
		die("udp_test: connect");
	pass_messages(iterations, to, from);
}
