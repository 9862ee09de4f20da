// SPDX-License-Identifier: GPL-2.0-or-later
/* A process that comes, executes a program and goes: PIDs, tasklist_lock, memory maps, page tables. */
/* As syscall.c's exec; the program is the agent. */
#include "unixbench.h"

#include "small_program.h"

char *testcase_description = "fork a process that executes a program, and wait for it";
char *testcase_differs = "a program without a dynamic linker instead of /bin/true";

static char path[] = "/tmp/unixbench.sysexec.XXXXXX";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	if (make_small_program(path))
		die("sysexec: program");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		if (run_small_program(path))
			die("sysexec: execl");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	unlink(path);
}
