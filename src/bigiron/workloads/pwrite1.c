// SPDX-License-Identifier: GPL-2.0-or-later
/* The inode's i_rwsem, the per-CPU s_writers, the folio's lock, the copy from user, the mtime. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "pwrite the same 4096 bytes of the task's own file";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/pwrite1.XXXXXX";
	char buf[LEN] = { 0 };
	int fd = mkstemp(path);

	(void)nr;
	if (fd < 0 || unlink(path))
		die("pwrite1: mkstemp");
	/* The first write allocates the page; every operation finds it. */
	if (pwrite(fd, buf, LEN, 0) != LEN)
		die("pwrite1: pwrite");

	while (1) {
		if (pwrite(fd, buf, LEN, 0) != LEN)
			die("pwrite1: pwrite");
		(*iterations)++;
	}
}
