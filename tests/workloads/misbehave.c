// SPDX-License-Identifier: GPL-2.0-or-later
/* Breaks the rules of a testcase in the way that the machine's domain name says. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *testcase_description = "break the rules";

static char way[65];

void testcase_prepare(unsigned long nr_tasks)
{
	assert(!getdomainname(way, sizeof(way)));
}

static int is(const char *name)
{
	return !strcmp(way, name);
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
	if (!is("never"))
		count(iterations, 100); /* which warm-up takes */
	if (!is("never") && !is("stops"))
		count(iterations, 100);
	if (is("exits")) {
		fprintf(stderr, "gave up\nfor good\n");
		exit(7);
	}
	if (is("crashes"))
		*(volatile char *)8 = 1;
	if (is("returns"))
		return;
	for (;;)
		pause();
}
