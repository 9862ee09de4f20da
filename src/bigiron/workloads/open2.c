// SPDX-License-Identifier: GPL-2.0-or-later
/* As open1, but in a directory of the task's own: what is still shared, every open() shares. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *testcase_description = "open and close the task's own file in the task's own directory";

static char dir[] = "/tmp/open2.XXXXXX";
static unsigned long nr_dirs;

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase_prepare(unsigned long nr_tasks)
{
	if (!mkdtemp(dir))
		die("open2: mkdtemp");
	nr_dirs = nr_tasks;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/%lu", dir, nr);
	if (mkdir(path, 0700))
		die("open2: mkdir");
	snprintf(path, sizeof(path), "%s/%lu/file", dir, nr);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || close(fd))
		die("open2: create");

	while (1) {
		fd = open(path, O_RDWR);
		if (fd < 0)
			die("open2: open");
		if (close(fd))
			die("open2: close");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	char path[64];

	for (unsigned long nr = 0; nr < nr_dirs; nr++) {
		snprintf(path, sizeof(path), "%s/%lu/file", dir, nr);
		unlink(path);
		snprintf(path, sizeof(path), "%s/%lu", dir, nr);
		rmdir(path);
	}
	if (rmdir(dir))
		die("open2: rmdir");
}
