// SPDX-License-Identifier: GPL-2.0-or-later
/* Processes that come and go: PIDs, tasklist_lock, page tables, signals, cgroup; what fork() copies. */
/* As lat_proc fork; what is forked is as large as the agent. */
#include "lmbench.h"

char *testcase_description = "fork a process that exits at once, and wait for it";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		pid_t pid = fork();

		if (!pid)
			_exit(1);
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			die("fork: fork");
		(*iterations)++;
	}
}
