// SPDX-License-Identifier: GPL-2.0-or-later
/* The struct file's position and f_pos_lock, the inode's i_rwsem and times, pages of its page cache. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096
#define FILE_BYTES (1 << 20)

char *testcase_description = "write the next 4096 bytes of the task's own file, from its start after 1 MiB";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/write1.XXXXXX";
	int fd = mkstemp(path);
	char buf[LEN] = { 0 };
	off_t end = 0;

	(void)nr;
	if (fd < 0 || unlink(path))
		die("write1: mkstemp");

	while (1) {
		if (write(fd, buf, LEN) != LEN)
			die("write1: write");
		end += LEN;
		if (end == FILE_BYTES) {
			if (lseek(fd, 0, SEEK_SET))
				die("write1: lseek");
			end = 0;
		}
		(*iterations)++;
	}
}
