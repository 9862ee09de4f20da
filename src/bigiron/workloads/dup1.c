// SPDX-License-Identifier: GPL-2.0-or-later
/* The files_struct's file_lock and bitmap (all threads have one), the file's f_count. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "dup and close a descriptor of the task's own file";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/dup1.XXXXXX";
	int fd = mkstemp(path);

	(void)nr;
	if (fd < 0 || unlink(path))
		die("dup1: mkstemp");

	while (1) {
		int copy = dup(fd);

		if (copy < 0)
			die("dup1: dup");
		if (close(copy))
			die("dup1: close");
		(*iterations)++;
	}
}
