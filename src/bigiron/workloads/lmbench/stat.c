// SPDX-License-Identifier: GPL-2.0-or-later
/* Path lookup: dentries, sequence counts, credentials; the inode of a file that all tasks look at. */
/* As lat_syscall stat. */
#include "lmbench.h"

char *testcase_description = "stat a file, the same for all tasks";

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
	struct stat status;

	(void)nr;
	while (1) {
		if (stat(path, &status))
			die("stat: stat");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	unlink(path);
}
