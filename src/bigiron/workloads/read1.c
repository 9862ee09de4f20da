// SPDX-License-Identifier: GPL-2.0-or-later
/* The struct file's position and f_pos_lock, pages of the file's page cache, the inode's times. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096
#define FILE_BYTES (1 << 20)

char *testcase_description = "read the next 4096 cached bytes of the task's own 1 MiB file";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/read1.XXXXXX";
	int fd = mkstemp(path);
	char *content = calloc(1, FILE_BYTES);
	char buf[LEN];

	(void)nr;
	if (fd < 0 || unlink(path))
		die("read1: mkstemp");
	if (!content || write(fd, content, FILE_BYTES) != FILE_BYTES || lseek(fd, 0, SEEK_SET))
		die("read1: write the file");
	free(content);

	while (1) {
		ssize_t got = read(fd, buf, LEN);

		if (got < 0)
			die("read1: read");
		/* The end of the file is an operation, too. */
		if (!got && lseek(fd, 0, SEEK_SET))
			die("read1: lseek");
		(*iterations)++;
	}
}
