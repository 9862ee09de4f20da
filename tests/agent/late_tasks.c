// SPDX-License-Identifier: GPL-2.0-or-later
/* Tasks that take long to get onto their CPUs: who gathers them meanwhile must not move itself. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "machine/affinity.h"
#include "protocol/job.h"
#include "tasks/tasks.h"

static pid_t agent;

int pin(pid_t thread, int cpu)
{
	(void)cpu;
	if (!thread && getpid() == agent) {
		puts("the agent has moved itself");
		exit(1);
	}
	if (!thread)
		usleep(200000);
	return 0;
}

int allowed_cpus(struct cpus *cpus)
{
	(void)cpus;
	return 0;
}

int nth_cpu(unsigned long n, const struct cpus *cpus)
{
	(void)cpus;
	return n;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	for (;;)
		++*(volatile unsigned long long *)iterations;
}

int main(void)
{
	const struct job job = { .tasks = 2, .patience_s = 60 };

	agent = getpid();
	if (start_tasks(&job))
		return 1;
	gather_tasks(&job);
	stop_tasks(&job);
	return 0;
}
