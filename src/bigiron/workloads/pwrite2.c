// SPDX-License-Identifier: GPL-2.0-or-later
/* One inode: its i_rwsem, its times, a page of its page cache with its lock. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "pwrite the same 4096 bytes of a shared file";

static char path[] = "/tmp/pwrite2.XXXXXX";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase_prepare(unsigned long nr_tasks)
{
	char buf[LEN] = { 0 };
	int fd = mkstemp(path);

	(void)nr_tasks;
	if (fd < 0)
		die("pwrite2: mkstemp");
	if (write(fd, buf, LEN) != LEN || close(fd))
		die("pwrite2: write the file");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char buf[LEN] = { 0 };
	int fd = open(path, O_RDWR);

	(void)nr;
	if (fd < 0)
		die("pwrite2: open");

	while (1) {
		if (pwrite(fd, buf, LEN, 0) != LEN)
			die("pwrite2: pwrite");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("pwrite2: unlink");
}
