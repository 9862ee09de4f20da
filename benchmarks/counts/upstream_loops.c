// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs one task of a workload, compiled with -fsanitize-coverage=trace-pc, under strace: upstream_loops OPERATIONS.
 * A write to no file marks the first and the last of them in the trace.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WARM_UP 64 /* a pass over a file or a mapping may be over only later: that is counted */

extern void testcase_prepare(unsigned long nr_tasks) __attribute__((weak));
extern void testcase(unsigned long long *iterations, unsigned long nr);
extern void testcase_cleanup(void) __attribute__((weak));

static volatile unsigned long long done;
static unsigned long long begin = WARM_UP, end;

void __sanitizer_cov_trace_pc(void)
{
	if (begin && done >= begin) {
		begin = 0;
		syscall(SYS_write, -1, "begin", 5);
	}
	if (end && done >= end + WARM_UP) {
		end = 0; /* testcase_cleanup() comes here, too */
		syscall(SYS_write, -1, "end", 3);
		if (testcase_cleanup)
			testcase_cleanup();
		_exit(0);
	}
}

void new_task(void *(*func)(void *), void *arg)
{
	pid_t pid = fork();

	if (pid < 0) {
		perror("upstream_loops: fork");
		_exit(1);
	}
	if (pid)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	func(arg);
	_exit(0);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	end = strtoull(argv[1], NULL, 10);
	if (testcase_prepare)
		testcase_prepare(1);
	testcase((unsigned long long *)&done, 0);
	return 1;
}
