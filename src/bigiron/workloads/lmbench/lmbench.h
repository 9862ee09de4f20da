/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What lmbench's tests of latency have in common: a task and its partner pass a token. They are on one CPU here, where the
 * scheduler is free in the original.
 */
#ifndef LMBENCH_H
#define LMBENCH_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OURS __attribute__((unused)) static

extern void new_task(void *(*func)(void *), void *arg);

struct ends {
	int from, to;
};

OURS void die(const char *what)
{
	perror(what);
	_exit(1);
}

OURS void *pass_back(void *arg)
{
	struct ends *ends = arg;
	char byte;

	while (1)
		if (read(ends->from, &byte, 1) != 1 || write(ends->to, &byte, 1) != 1)
			die("lmbench: the partner's read or write");
	return NULL;
}

OURS void __attribute__((noreturn))
pass_token(unsigned long long *iterations, struct ends own, struct ends *partner_s)
{
	char byte = 0;

	new_task(pass_back, partner_s);
	while (1) {
		if (write(own.to, &byte, 1) != 1 || read(own.from, &byte, 1) != 1)
			die("lmbench: read or write");
		(*iterations)++;
	}
}

/* A socket at an address of loopback's that no other socket has. */
OURS int bound_socket(int type, struct sockaddr_in *address)
{
	socklen_t length = sizeof(*address);
	int fd = socket(AF_INET, type, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (fd < 0 || bind(fd, (void *)address, length) || getsockname(fd, (void *)address, &length))
		die("lmbench: socket");
	return fd;
}

OURS int connected_socket(const struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (void *)address, sizeof(*address)))
		die("lmbench: connect");
	return fd;
}

#endif
