// SPDX-License-Identifier: GPL-2.0-or-later
/* Processes that come and go: PIDs, tasklist_lock, page tables, signals, cgroup; what fork() copies. */
/* As spawn.c; the child ends by _exit(), and what is forked is as large as the agent. */
#include "unixbench.h"

char *testcase_description = "fork a process that exits at once, and wait for it";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		pid_t pid = fork();
		int status;

		if (!pid)
			_exit(0);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			die("spawn: fork");
		(*iterations)++;
	}
}
