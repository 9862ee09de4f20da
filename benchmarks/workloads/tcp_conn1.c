// SPDX-License-Identifier: GPL-2.0-or-later
/* Connections over the loopback device, each task with a listener of its own: ports are searched for among all. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128

char *testcase_description = "connect to a listener of the task's own, accept, close both ends at once";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static int tcp(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		die("tcp_conn1: socket");
	return fd;
}

__attribute__((constructor)) static void loopback_up(void)
{
	struct ifreq ask = { .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = tcp();

	strcpy(ask.ifr_name, "lo");
	if (ioctl(fd, SIOCSIFFLAGS, &ask))
		die("tcp_conn1: lo");
	close(fd);
}

static int listener(struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);
	int fd = tcp();

	*at = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(fd, (struct sockaddr *)at, len))
		die("tcp_conn1: bind");
	if (listen(fd, BACKLOG))
		die("tcp_conn1: listen");
	if (getsockname(fd, (struct sockaddr *)at, &len))
		die("tcp_conn1: getsockname");
	return fd;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	/* A reset leaves no port in TIME_WAIT; otherwise they were all used up after 28,000 connections. */
	const struct linger reset = { .l_onoff = 1, .l_linger = 0 };
	struct sockaddr_in at;
	int listening = listener(&at);

	(void)nr;
	while (1) {
		int client = tcp(), server;

		if (setsockopt(client, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)))
			die("tcp_conn1: SO_LINGER");
		if (connect(client, (struct sockaddr *)&at, sizeof(at)))
			die("tcp_conn1: connect");
		server = accept(listening, NULL, NULL);
		if (server < 0)
			die("tcp_conn1: accept");
		close(client);
		close(server);
		(*iterations)++;
	}
}
