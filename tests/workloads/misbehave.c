// SPDX-License-Identifier: GPL-2.0-or-later
/* Breaks the rules of a testcase in the way that the boot parameter testcase=WAY says. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *testcase_description = "break the rules";

static char parameters[2048];

void testcase_prepare(unsigned long nr_tasks)
{
	int fd = open("/proc/cmdline", O_RDONLY);

	assert(read(fd, parameters, sizeof(parameters) - 1) > 0);
	close(fd);
}

static int is(const char *way)
{
	return !!strstr(parameters, way);
}

static void count(unsigned long long *iterations, int operations)
{
	while (operations--) {
		getppid();
		(*iterations)++;
	}
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	if (!is("testcase=never"))
		count(iterations, 100); /* which warm-up takes */
	if (!is("testcase=never") && !is("testcase=stops"))
		count(iterations, 100);
	if (is("testcase=exits")) {
		fprintf(stderr, "gave up\nfor good\n");
		exit(7);
	}
	if (is("testcase=crashes"))
		*(volatile char *)8 = 1;
	if (is("testcase=returns"))
		return;
	for (;;)
		pause();
}
