// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lmbench_test, linked with a workload of lmbench and --wrap for read, write and select: what the workload asks of the
 * kernel first. For bandwidth, the partner's write and the task's read, with the kind of descriptor and the bytes; for
 * select, how many descriptors of which kind it looks at.
 */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern void testcase(unsigned long long *iterations, unsigned long nr);

static const char *kind_of(int fd)
{
	struct sockaddr_storage address = { 0 };
	socklen_t length = sizeof(address);
	struct stat status;

	if (fstat(fd, &status))
		return "none";
	if (S_ISFIFO(status.st_mode))
		return "pipe";
	if (!S_ISSOCK(status.st_mode))
		return "file";
	return getsockname(fd, (void *)&address, &length) || address.ss_family != AF_INET ? "unix" : "tcp";
}

ssize_t __wrap_write(int fd, const void *bytes, size_t count)
{
	(void)bytes;
	printf("%s write %zu\n", kind_of(fd), count);
	exit(0);
}

ssize_t __wrap_read(int fd, void *bytes, size_t count)
{
	(void)bytes;
	wait(NULL);
	printf("%s read %zu\n", kind_of(fd), count);
	exit(0);
}

int __wrap_select(int end, fd_set *to_read, fd_set *to_write, fd_set *special, struct timeval *timeout)
{
	const char *kind = "none";
	int descriptors = 0;

	(void)to_read, (void)special, (void)timeout;
	for (int fd = 0; fd < end; fd++)
		if (FD_ISSET(fd, to_write)) {
			kind = kind_of(fd);
			descriptors++;
		}
	printf("%s select %d\n", kind, descriptors);
	exit(0);
}

void new_task(void *(*func)(void *), void *arg)
{
	if (!fork())
		func(arg);
}

int main(void)
{
	unsigned long long operations = 0;

	testcase(&operations, 0);
	return 1;
}
