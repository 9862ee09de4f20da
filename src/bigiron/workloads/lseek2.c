// SPDX-License-Identifier: GPL-2.0-or-later
/* The descriptor table and the struct file of the task's own, the inode's size; the inode is shared. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "lseek to the start of a shared file, which each task has opened";

static char path[] = "/tmp/lseek2.XXXXXX";

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
		die("lseek2: mkstemp");
	if (write(fd, buf, LEN) != LEN || close(fd))
		die("lseek2: write the file");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open(path, O_RDWR);

	(void)nr;
	if (fd < 0)
		die("lseek2: open");

	while (1) {
		if (lseek(fd, 0, SEEK_SET))
			die("lseek2: lseek");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("lseek2: unlink");
}
