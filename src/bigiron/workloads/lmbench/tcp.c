// SPDX-License-Identifier: GPL-2.0-or-later
/* Sleep, wake-up and switch; a TCP connection over loopback: sk_buffs, sockets, softirq, route. */
/* As lat_tcp localhost. */
#include "lmbench.h"

char *testcase_description = "pass a byte to a process on the same CPU and back by TCP over loopback";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct sockaddr_in address;
	struct ends partner_s;
	int listener = bound_socket(SOCK_STREAM, &address), own, on = 1;

	(void)nr;
	if (listen(listener, 1))
		die("tcp: listen");
	own = connected_socket(&address);
	partner_s.from = partner_s.to = accept(listener, NULL, NULL);
	if (partner_s.from < 0 || setsockopt(own, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) ||
	    setsockopt(partner_s.from, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)))
		die("tcp: accept");
	pass_token(iterations, (struct ends){ own, own }, &partner_s);
}
