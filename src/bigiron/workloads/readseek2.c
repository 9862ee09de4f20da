// SPDX-License-Identifier: GPL-2.0-or-later
/* The page's reference count, the file's i_pages, the inode's times; each task has its own struct file. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "lseek to the start of a shared file, read 4096 cached bytes";

static char path[] = "/tmp/readseek2.XXXXXX";

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
		die("readseek2: mkstemp");
	if (write(fd, buf, LEN) != LEN || close(fd))
		die("readseek2: write the file");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char buf[LEN] = { 0 };
	int fd = open(path, O_RDWR);

	(void)nr;
	if (fd < 0)
		die("readseek2: open");

	while (1) {
		if (lseek(fd, 0, SEEK_SET))
			die("readseek2: lseek");
		if (read(fd, buf, LEN) != LEN)
			die("readseek2: read");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("readseek2: unlink");
}
