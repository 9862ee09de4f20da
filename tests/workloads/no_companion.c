// SPDX-License-Identifier: GPL-2.0-or-later
/* Asks for a companion where no process can be made. */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

extern void new_task(void *(*func)(void *), void *arg);

char *testcase_description = "ask for a companion that cannot be had";

static void *nothing(void *unused)
{
	return unused;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	setrlimit(RLIMIT_NPROC, &(struct rlimit){ 0, 0 });
	if (!getuid() && setuid(65534)) /* the limit does not hold for root */
		exit(1);
	new_task(nothing, NULL);
	for (;;)
		++*(volatile unsigned long long *)iterations;
}
