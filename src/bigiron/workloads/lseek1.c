// SPDX-License-Identifier: GPL-2.0-or-later
/* Descriptor lookup, and f_pos, which stays 0; in thread mode also f_count and f_pos_lock. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "lseek to the start of the task's own file";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/lseek1.XXXXXX";
	int fd = mkstemp(path);

	(void)nr;
	if (fd < 0 || unlink(path))
		die("lseek1: mkstemp");

	while (1) {
		if (lseek(fd, 0, SEEK_SET))
			die("lseek1: lseek");
		(*iterations)++;
	}
}
