// SPDX-License-Identifier: GPL-2.0-or-later
/* A file is created and unlinked: the directory, inodes, and the file system's list of orphans. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

char *testcase_description = "create, close and unlink a file of the task's own name in /tmp";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/creat_clo.%lu", nr);
	while (1) {
		int fd = creat(path, 0600);

		if (fd < 0)
			die("creat_clo: creat");
		if (close(fd))
			die("creat_clo: close");
		if (unlink(path))
			die("creat_clo: unlink");
		(*iterations)++;
	}
}
