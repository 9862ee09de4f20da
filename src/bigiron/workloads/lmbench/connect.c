// SPDX-License-Identifier: GPL-2.0-or-later
/* TCP connections that come and go: the tables of ports and of connections, sockets, timers. */
/* As lat_connect localhost, whose server is on another CPU; the client resets, so that ports do not run out. */
#include "lmbench.h"

char *testcase_description = "connect to the task's own listener by TCP over loopback, and close";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	const struct linger reset = { .l_onoff = 1 };
	struct sockaddr_in address;
	int listener = bound_socket(SOCK_STREAM, &address);

	(void)nr;
	if (listen(listener, 1))
		die("connect: listen");
	while (1) {
		int client = connected_socket(&address), server = accept(listener, NULL, NULL);

		if (server < 0 || setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
			die("connect: accept");
		close(client);
		close(server);
		(*iterations)++;
	}
}
