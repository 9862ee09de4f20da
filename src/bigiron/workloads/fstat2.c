// SPDX-License-Identifier: GPL-2.0-or-later
/* The descriptor table, the struct file, the inode's attributes, LSM's hook; all of one file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *testcase_description = "fstat a shared file, which each task has opened";

static char path[] = "/tmp/fstat2.XXXXXX";

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
		die("fstat2: mkstemp");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct stat status;
	int fd = open(path, O_RDONLY);

	(void)nr;
	if (fd < 0)
		die("fstat2: open");

	while (1) {
		if (fstat(fd, &status))
			die("fstat2: fstat");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("fstat2: unlink");
}
