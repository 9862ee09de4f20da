// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Each task writes eight bytes of one page of a file, which the kernel copies through its own mapping of it. The
 * machine's domain name says how far apart their bytes lie: 0 the same bytes, 8 the same line, 64 lines of their own.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "pwrite of eight bytes beside those of the other tasks";

static int file;
static int distance;

void testcase_prepare(unsigned long nr_tasks)
{
	char name[65];

	assert(!getdomainname(name, sizeof(name)));
	distance = atoi(name);
	file = open("/tmp/page", O_RDWR | O_CREAT, 0600);
	assert(file >= 0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	for (;;) {
		assert(pwrite(file, "8 bytes", 8, nr * distance) == 8);
		(*iterations)++;
	}
}
