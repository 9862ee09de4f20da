// SPDX-License-Identifier: GPL-2.0-or-later
/* The eventfd_ctx's wait queue lock and its count; no task ever waits. */
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

char *testcase_description = "write and read back the task's own eventfd";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	uint64_t value = 1;
	int fd = eventfd(0, 0);

	(void)nr;
	if (fd < 0)
		die("eventfd1: eventfd");

	while (1) {
		if (write(fd, &value, sizeof(value)) != sizeof(value))
			die("eventfd1: write");
		if (read(fd, &value, sizeof(value)) != sizeof(value))
			die("eventfd1: read");
		(*iterations)++;
	}
}
