// SPDX-License-Identifier: GPL-2.0-or-later
/* A pipe that is filled and emptied: its mutex, ring and pages; copies; sleep, wake-up and switch. */
/* As bw_pipe. */
#include "bandwidth.h"

char *testcase_description = "read 64 KiB that a process on the same CPU writes to a pipe";
char *testcase_differs = "both processes of the pair on one CPU";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd[2];

	(void)nr;
	if (pipe(fd))
		die("bw_pipe: pipe");
	read_messages(iterations, fd[0], &fd[1]);
}
