// SPDX-License-Identifier: GPL-2.0-or-later
/* The file's file_lock_context: flc_lock and a list of POSIX locks, which are allocated and freed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "lock or unlock a byte of the task's own file with fcntl";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct flock lock = { .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	char path[] = "/tmp/lock1.XXXXXX";
	int fd = mkstemp(path);

	(void)nr;
	if (fd < 0 || unlink(path))
		die("lock1: mkstemp");

	/* Each of the two calls is an operation, as in will-it-scale. */
	while (1) {
		lock.l_type = F_WRLCK;
		if (fcntl(fd, F_SETLKW, &lock))
			die("lock1: lock");
		lock.l_type = F_UNLCK;
		if (fcntl(fd, F_SETLKW, &lock))
			die("lock1: unlock");
		(*iterations) += 2;
	}
}
