// SPDX-License-Identifier: GPL-2.0-or-later
/* The path walk, the dentry's d_lockref, the inode's attributes, LSM's hook; all of one file. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *testcase_description = "stat a shared file";

static char path[] = "/tmp/stat2.XXXXXX";

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
		die("stat2: mkstemp");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct stat status;

	(void)nr;

	while (1) {
		if (stat(path, &status))
			die("stat2: stat");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("stat2: unlink");
}
