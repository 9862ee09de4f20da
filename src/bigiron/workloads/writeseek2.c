// SPDX-License-Identifier: GPL-2.0-or-later
/* One inode: its i_rwsem, its times, a page of its page cache with its lock; each task has its own struct file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "lseek to the start of a shared file, write 4096 bytes";

static char path[] = "/tmp/writeseek2.XXXXXX";

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
		die("writeseek2: mkstemp");
	if (write(fd, buf, LEN) != LEN || close(fd))
		die("writeseek2: write the file");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char buf[LEN] = { 0 };
	int fd = open(path, O_RDWR);

	(void)nr;
	if (fd < 0)
		die("writeseek2: open");

	while (1) {
		if (lseek(fd, 0, SEEK_SET))
			die("writeseek2: lseek");
		if (write(fd, buf, LEN) != LEN)
			die("writeseek2: write");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("writeseek2: unlink");
}
