// SPDX-License-Identifier: GPL-2.0-or-later
/* A struct file with its credential and LSM references, the path walk, the dentry's d_lockref. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "open and close the task's own file, all in one directory";

static char dir[] = "/tmp/open1.XXXXXX";
static unsigned long nr_files;

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static void own_file(char *path, size_t size, unsigned long nr)
{
	snprintf(path, size, "%s/%lu", dir, nr);
}

void testcase_prepare(unsigned long nr_tasks)
{
	if (!mkdtemp(dir))
		die("open1: mkdtemp");
	nr_files = nr_tasks;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[64];
	int fd;

	own_file(path, sizeof(path), nr);
	/* Created here, not in prepare: the inode then lies on the task's node, beside no other task's. */
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || close(fd))
		die("open1: create");

	while (1) {
		fd = open(path, O_RDWR);
		if (fd < 0)
			die("open1: open");
		if (close(fd))
			die("open1: close");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	char path[64];

	for (unsigned long nr = 0; nr < nr_files; nr++) {
		own_file(path, sizeof(path), nr);
		unlink(path);
	}
	if (rmdir(dir))
		die("open1: rmdir");
}
