// SPDX-License-Identifier: GPL-2.0-or-later
/* Path lookup, struct file, and one inode: reference counts of its dentry and of the security label. */
/* As lat_syscall open. */
#include "lmbench.h"

char *testcase_description = "open and close a file, the same for all tasks";

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
	(void)nr;
	while (1) {
		int fd = open(path, O_RDONLY);

		if (fd < 0 || close(fd))
			die("open: open");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	unlink(path);
}
