// SPDX-License-Identifier: GPL-2.0-or-later
/* One dentry's d_lockref and one inode; a struct file with its credential and LSM references. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "open and close a shared file";

static char path[] = "/tmp/open3.XXXXXX";

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
		die("open3: mkstemp");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		int fd = open(path, O_RDWR);

		if (fd < 0)
			die("open3: open");
		if (close(fd))
			die("open3: close");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("open3: unlink");
}
