// SPDX-License-Identifier: GPL-2.0-or-later
/* A round of sleeps, so many that a count of them can be checked. */
#define _GNU_SOURCE
#include <sys/resource.h>
#include <time.h>

#include "operations.h"
#include "tasks.h"

char *testcase_description = "sleep for 20 ms";
unsigned long testcase_operations;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;

	testcase_operations = 50;
	operations_prepare(testcase_operations);
}

static long times_asleep(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

/* Exactly once: where a CPU loses its turn for long enough, the time is over before anybody sleeps. */
static void sleep_once(void)
{
	const struct timespec time = { .tv_nsec = 20000000 };
	long before = times_asleep();

	while (times_asleep() == before)
		nanosleep(&time, NULL);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	for (;;) {
		begin_round(iterations);
		for (unsigned long i = 0; i < testcase_operations; i++) {
			operation_begin();
			sleep_once();
			operation_end(i, -1, "asleep");
			/* Not in an operation: not to be counted. */
			sleep_once();
			++*iterations;
		}
	}
}
