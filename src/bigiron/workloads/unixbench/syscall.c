// SPDX-License-Identifier: GPL-2.0-or-later
/* The system call itself; descriptor tables, credentials, and the reference count of the task's own file. */
/* As syscall.c's mix. Each task has a pipe of its own there, a file here. */
#include "unixbench.h"

char *testcase_description = "dup and close, getpid, getuid and umask";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = make_own_file();

	(void)nr;
	while (1) {
		close(dup(fd));
		syscall(SYS_getpid);
		syscall(SYS_getuid);
		umask(022);
		(*iterations)++;
	}
}
