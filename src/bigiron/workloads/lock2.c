// SPDX-License-Identifier: GPL-2.0-or-later
/* One file_lock_context for all: flc_lock, the list of its POSIX locks, the locks that wait; processes wait. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "lock or unlock the same byte of a shared file with fcntl";

static char path[] = "/tmp/lock2.XXXXXX";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase_prepare(unsigned long nr_tasks)
{
	int fd = mkstemp(path);

	(void)nr_tasks;
	if (fd < 0 || close(fd))
		die("lock2: mkstemp");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct flock lock = { .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	int fd = open(path, O_RDWR);

	(void)nr;
	if (fd < 0)
		die("lock2: open");

	/* Each of the two calls is an operation. Threads hold the lock together: its owner is the process. */
	while (1) {
		lock.l_type = F_WRLCK;
		if (fcntl(fd, F_SETLKW, &lock))
			die("lock2: lock");
		lock.l_type = F_UNLCK;
		if (fcntl(fd, F_SETLKW, &lock))
			die("lock2: unlock");
		(*iterations) += 2;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("lock2: unlink");
}
