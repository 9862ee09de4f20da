// SPDX-License-Identifier: GPL-2.0-or-later
/* One page of the page cache: its reference count, the file's i_pages, the inode's times. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "pread the same 4096 cached bytes of a shared file";

static char path[] = "/tmp/pread2.XXXXXX";

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
		die("pread2: mkstemp");
	if (write(fd, buf, LEN) != LEN || close(fd))
		die("pread2: write the file");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char buf[LEN] = { 0 };
	int fd = open(path, O_RDONLY);

	(void)nr;
	if (fd < 0)
		die("pread2: open");

	while (1) {
		if (pread(fd, buf, LEN, 0) != LEN)
			die("pread2: pread");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("pread2: unlink");
}
