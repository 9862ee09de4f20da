// SPDX-License-Identifier: GPL-2.0-or-later
/* The system call, a descriptor, a file of a device. */
/* As lat_syscall read. */
#include "lmbench.h"

char *testcase_description = "read one byte of /dev/zero";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open("/dev/zero", O_RDONLY);
	char byte;

	(void)nr;
	while (1) {
		if (read(fd, &byte, 1) != 1)
			die("read: read");
		(*iterations)++;
	}
}
