// SPDX-License-Identifier: GPL-2.0-or-later
/* Threads and their companions that never ask the kernel for anything: they must be gone when the workload cleans up. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void new_task(void *(*func)(void *), void *arg);

char *testcase_description = "count, each task with a companion";

#define MAX_COUNTERS 16

static volatile unsigned long counters[MAX_COUNTERS];

static void *count(void *counter)
{
	for (;;)
		++*(volatile unsigned long *)counter;
	return NULL;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	new_task(count, (void *)&counters[2 * nr]);
	for (;;) {
		counters[2 * nr + 1]++;
		++*(volatile unsigned long long *)iterations;
	}
}

/* Status 7: a task still counts. */
void testcase_cleanup(void)
{
	unsigned long before[MAX_COUNTERS];

	memcpy(before, (void *)counters, sizeof(before));
	usleep(100000);
	if (memcmp(before, (void *)counters, sizeof(before)))
		_exit(7);
}
