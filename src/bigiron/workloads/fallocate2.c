// SPDX-License-Identifier: GPL-2.0-or-later
/* The file's i_rwsem, what the file system allocates space from; on tmpfs pages, as in fallocate1. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_BYTES (1 << 20)
#define LEN (FILE_BYTES / 128)

char *testcase_description = "fallocate the next 8 KiB of the task's own file in /tmp, up to 1 MiB";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/fallocate2.XXXXXX";
	int fd = mkstemp(path);
	off_t end = 0;

	(void)nr;
	if (fd < 0 || unlink(path))
		die("fallocate2: mkstemp in /tmp");

	while (1) {
		if (fallocate(fd, 0, end, LEN))
			die("fallocate2: fallocate");
		end += LEN;
		if (end == FILE_BYTES) {
			if (ftruncate(fd, 0))
				die("fallocate2: ftruncate");
			end = 0;
		}
		(*iterations)++;
	}
}
