// SPDX-License-Identifier: GPL-2.0-or-later
/* What UnixBench's spawn does: a child that only exits. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

char *testcase_description = "fork a child that exits at once, and wait for it";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		pid_t child = fork();

		if (!child)
			_exit(0);
		if (child < 0 || waitpid(child, NULL, 0) != child) {
			perror("fork1");
			_exit(1);
		}
		(*iterations)++;
	}
}
