// SPDX-License-Identifier: GPL-2.0-or-later
/* Sleep, wake-up and switch; UDP over loopback: sk_buffs, sockets' queues and memory, softirq, route. */
/* As lat_udp localhost; both sockets are connected. */
#include "lmbench.h"

char *testcase_description = "pass a byte to a process on the same CPU and back by UDP over loopback";
char *testcase_differs = "one byte instead of four";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct sockaddr_in own_address, partner_address;
	int own = bound_socket(SOCK_DGRAM, &own_address), partner = bound_socket(SOCK_DGRAM, &partner_address);
	struct ends partner_s = { partner, partner };

	(void)nr;
	if (connect(own, (void *)&partner_address, sizeof(partner_address)) ||
	    connect(partner, (void *)&own_address, sizeof(own_address)))
		die("udp: connect");
	pass_token(iterations, (struct ends){ own, own }, &partner_s);
}
