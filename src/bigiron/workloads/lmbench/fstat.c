// SPDX-License-Identifier: GPL-2.0-or-later
/* A descriptor, and the inode of a file that all tasks look at. */
/* As lat_syscall fstat; each task has opened the file. */
#include "lmbench.h"

char *testcase_description = "fstat a file, the same for all tasks";

static char path[] = "/tmp/lmbench.XXXXXX";

void testcase_prepare(unsigned long nr_tasks)
{
	int fd = mkstemp(path);

	(void)nr_tasks;
	if (fd < 0)
		die("lmbench: mkstemp");
	close(fd);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open(path, O_RDONLY);
	struct stat status;

	(void)nr;
	while (1) {
		if (fstat(fd, &status))
			die("fstat: fstat");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	unlink(path);
}
