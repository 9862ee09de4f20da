// SPDX-License-Identifier: GPL-2.0-or-later
/* The struct file's position and f_pos_lock, a page of the file's page cache, the inode's times. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "lseek to the start of the task's own file, read 4096 cached bytes";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/readseek1.XXXXXX";
	int fd = mkstemp(path);
	char buf[LEN] = { 0 };

	(void)nr;
	if (fd < 0 || unlink(path))
		die("readseek1: mkstemp");
	if (write(fd, buf, LEN) != LEN)
		die("readseek1: write the file");

	while (1) {
		if (lseek(fd, 0, SEEK_SET))
			die("readseek1: lseek");
		if (read(fd, buf, LEN) != LEN)
			die("readseek1: read");
		(*iterations)++;
	}
}
