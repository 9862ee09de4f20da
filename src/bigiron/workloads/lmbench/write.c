// SPDX-License-Identifier: GPL-2.0-or-later
/* The system call, a descriptor, a file of a device. */
/* As lat_syscall write. */
#include "lmbench.h"

char *testcase_description = "write one byte to /dev/null";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open("/dev/null", O_WRONLY);
	char byte = 0;

	(void)nr;
	while (1) {
		if (write(fd, &byte, 1) != 1)
			die("write: write");
		(*iterations)++;
	}
}
