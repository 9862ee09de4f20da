// SPDX-License-Identifier: GPL-2.0-or-later
/* Uses what every machine has: a pseudo-terminal, shared memory, the loopback interface, what the kernel's file systems tell. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

char *testcase_description = "use what every machine has";

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void use_terminal(void)
{
	int terminal = posix_openpt(O_RDWR | O_NOCTTY);

	check(terminal >= 0 && !grantpt(terminal) && !unlockpt(terminal), "/dev/ptmx");
	check(open(ptsname(terminal), O_RDWR | O_NOCTTY) >= 0, "/dev/pts");
}

static void use_loopback(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof(address);
	int server = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);

	check(!bind(server, (void *)&address, length) && !listen(server, 1), "listen");
	check(!getsockname(server, (void *)&address, &length), "getsockname");
	check(!connect(client, (void *)&address, length), "connect to 127.0.0.1");
}

void testcase_prepare(unsigned long nr_tasks)
{
	static const char *const there[] = {
		"/proc/stat", "/sys/kernel/tracing/trace", "/sys/kernel/debug/clear_warn_once", "/sys/kernel/security/lsm",
		"/sys/fs/cgroup/cgroup.controllers",
	};

	(void)nr_tasks;
	for (size_t i = 0; i < sizeof(there) / sizeof(*there); i++)
		check(!access(there[i], F_OK), there[i]);
	check(shm_open("/name", O_RDWR | O_CREAT, 0600) >= 0, "/dev/shm");
	use_terminal();
	use_loopback();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		getppid();
		(*iterations)++;
	}
}
