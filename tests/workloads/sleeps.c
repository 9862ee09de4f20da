// SPDX-License-Identifier: GPL-2.0-or-later
/* A round of sleeps, so many that a count of them can be checked. */
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

void testcase(unsigned long long *iterations, unsigned long nr)
{
	const struct timespec time = { .tv_nsec = 20000000 };

	(void)nr;

	for (;;) {
		begin_round(iterations);
		for (unsigned long i = 0; i < testcase_operations; i++) {
			operation_begin();
			nanosleep(&time, NULL);
			operation_end(i, -1, "asleep");
			/* Not in an operation: not to be counted. */
			nanosleep(&time, NULL);
			++*iterations;
		}
	}
}
