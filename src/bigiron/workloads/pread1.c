// SPDX-License-Identifier: GPL-2.0-or-later
/* Page cache lookup in the file's i_pages, a folio reference, the copy to user, the atime check. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "pread 4096 cached bytes of the task's own file";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/pread1.XXXXXX";
	char buf[LEN] = { 0 };
	int fd = mkstemp(path);

	(void)nr;
	if (fd < 0 || unlink(path))
		die("pread1: mkstemp");
	if (pwrite(fd, buf, LEN, 0) != LEN)
		die("pread1: pwrite");

	while (1) {
		if (pread(fd, buf, LEN, 0) != LEN)
			die("pread1: pread");
		(*iterations)++;
	}
}
