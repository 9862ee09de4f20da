// SPDX-License-Identifier: GPL-2.0-or-later
/* The pipe_inode_info's mutex, ring and cached page; its wait queues, on which no task waits. */
#include <stdio.h>
#include <unistd.h>

char *testcase_description = "write one byte to the task's own pipe and read it back";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char byte = 0;
	int fd[2];

	(void)nr;
	if (pipe(fd))
		die("pipe1: pipe");

	while (1) {
		if (write(fd[1], &byte, 1) != 1)
			die("pipe1: write");
		if (read(fd[0], &byte, 1) != 1)
			die("pipe1: read");
		(*iterations)++;
	}
}
