// SPDX-License-Identifier: GPL-2.0-or-later
/* The task's own pipe: its mutex, ring and pages. */
/* As pipe_cpy(): a message is an operation. */
#include "messages.h"

char *testcase_description = "write 1 to 4,096 bytes to the task's own pipe and read them back";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd[2];

	(void)nr;
	if (pipe(fd))
		die("pipe_cpy: pipe");
	pass_messages(iterations, fd[1], fd[0]);
}
