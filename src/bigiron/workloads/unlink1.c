// SPDX-License-Identifier: GPL-2.0-or-later
/* Changes to one directory: its i_rwsem, its dentry's d_lock, the superblock's inode counts. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "create, close and unlink the task's own file, all in one directory";

static char dir[] = "/tmp/unlink1.XXXXXX";
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
		die("unlink1: mkdtemp");
	nr_files = nr_tasks;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[64];

	own_file(path, sizeof(path), nr);

	while (1) {
		int fd = open(path, O_RDWR | O_CREAT, 0600);

		if (fd < 0)
			die("unlink1: open");
		if (close(fd))
			die("unlink1: close");
		if (unlink(path))
			die("unlink1: unlink");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	char path[64];

	/* A task killed in the middle of an operation left its file. */
	for (unsigned long nr = 0; nr < nr_files; nr++) {
		own_file(path, sizeof(path), nr);
		unlink(path);
	}
	if (rmdir(dir))
		die("unlink1: rmdir");
}
