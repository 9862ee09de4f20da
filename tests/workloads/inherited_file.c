// SPDX-License-Identifier: GPL-2.0-or-later
/* All tasks share one open file: dup() takes a reference of it and close() drops it, and nothing else counts. */
#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

char *testcase_description = "dup and close of a file that all tasks inherit";

static int shared;

void testcase_prepare(unsigned long nr_tasks)
{
	shared = open("/tmp/shared", O_RDWR | O_CREAT, 0600);
	assert(shared >= 0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	for (;;) {
		assert(!close(dup(shared)));
		(*iterations)++;
	}
}
