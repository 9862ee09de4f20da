// SPDX-License-Identifier: GPL-2.0-or-later
/* The path walk, the inode's permissions, credentials (copied before 6.7); all of one file. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "check with access whether a shared file may be read";

static char path[] = "/tmp/access2.XXXXXX";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase_prepare(unsigned long nr_tasks)
{
	int fd = mkstemp(path);

	(void)nr_tasks;
	if (fd < 0 || close(fd))
		die("access2: mkstemp");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		if (access(path, R_OK))
			die("access2: access");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("access2: unlink");
}
