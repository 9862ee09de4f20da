// SPDX-License-Identifier: GPL-2.0-or-later
/* 100 descriptors of one struct file: its reference count, and its poll(). */
/* As lat_select -n 100 file. */
#include "lmbench.h"

char *testcase_description = "select on 100 descriptors of the task's own file";

#define DESCRIPTORS 100

static int make_set(fd_set *set)
{
	char path[] = "/tmp/lmbench.XXXXXX";
	int fd = mkstemp(path), last = 0;

	if (fd < 0 || unlink(path))
		die("select: mkstemp");
	FD_ZERO(set);
	for (int nr = 0; nr < DESCRIPTORS; nr++) {
		last = dup(fd);
		if (last < 0)
			die("select: dup");
		if (last >= FD_SETSIZE) {
			fputs("select: no room in an fd_set for descriptors of so many threads: use processes\n", stderr);
			_exit(1);
		}
		FD_SET(last, set);
	}
	return last + 1;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	fd_set set, readable;
	int end = make_set(&set);

	(void)nr;
	while (1) {
		struct timeval none = { 0 };

		readable = set;
		if (select(end, NULL, &readable, NULL, &none) != DESCRIPTORS)
			die("select: select");
		(*iterations)++;
	}
}
