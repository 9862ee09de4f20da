// SPDX-License-Identifier: GPL-2.0-or-later
/* The struct file's position and f_pos_lock, the inode's i_rwsem and times, a page of its page cache. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "lseek to the start of the task's own file, write 4096 bytes";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/writeseek1.XXXXXX";
	int fd = mkstemp(path);
	char buf[LEN] = { 0 };

	(void)nr;
	if (fd < 0 || unlink(path))
		die("writeseek1: mkstemp");

	while (1) {
		if (lseek(fd, 0, SEEK_SET))
			die("writeseek1: lseek");
		if (write(fd, buf, LEN) != LEN)
			die("writeseek1: write");
		(*iterations)++;
	}
}
