// SPDX-License-Identifier: GPL-2.0-or-later
/* The task's own directory: its i_rwsem and times; allocates and frees an inode and a dentry, LRU lists. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *testcase_description = "create, close and unlink the task's own file in the task's own directory";

static char path[] = "/tmp/unlink2.XXXXXX";
static unsigned long nr_dirs;

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* "/tmp/unlink2.XXXXXX.3": prepare takes the name without a number, so that no other run has it. */
static void own_dir(char *own, size_t size, unsigned long nr)
{
	snprintf(own, size, "%s.%lu", path, nr);
}

void testcase_prepare(unsigned long nr_tasks)
{
	int fd = mkstemp(path);

	if (fd < 0 || close(fd))
		die("unlink2: mkstemp");
	nr_dirs = nr_tasks;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char dir[64], file[80];

	own_dir(dir, sizeof(dir), nr);
	if (mkdir(dir, 0700))
		die("unlink2: mkdir");
	snprintf(file, sizeof(file), "%s/file", dir);

	while (1) {
		int fd = open(file, O_RDWR | O_CREAT, 0600);

		if (fd < 0)
			die("unlink2: open");
		if (close(fd))
			die("unlink2: close");
		if (unlink(file))
			die("unlink2: unlink");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	char dir[64], file[80];

	/* A task killed in the middle of an operation left its file. */
	for (unsigned long nr = 0; nr < nr_dirs; nr++) {
		own_dir(dir, sizeof(dir), nr);
		snprintf(file, sizeof(file), "%s/file", dir);
		unlink(file);
		rmdir(dir);
	}
	if (unlink(path))
		die("unlink2: unlink");
}
