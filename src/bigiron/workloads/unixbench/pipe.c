// SPDX-License-Identifier: GPL-2.0-or-later
/* The task's own pipe: its mutex, ring and pages; fsnotify's checks. */
/* As pipe.c: 512 bytes, written and read by one process. */
#include "unixbench.h"

char *testcase_description = "write 512 bytes to the task's own pipe and read them back";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char bytes[512] = { 0 };
	int fd[2];

	(void)nr;
	if (pipe(fd))
		die("pipe: pipe");
	while (1) {
		if (write(fd[1], bytes, sizeof(bytes)) != sizeof(bytes) || read(fd[0], bytes, sizeof(bytes)) != sizeof(bytes))
			die("pipe: read or write");
		(*iterations)++;
	}
}
