// SPDX-License-Identifier: GPL-2.0-or-later
/* The path walk, the inode's permissions, credentials (copied before 6.7). */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "check with access whether the task's own file may be read";

static char path[] = "/tmp/access1.XXXXXX";
static unsigned long nr_files;

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* "/tmp/access1.XXXXXX.3": prepare takes the name without a number, so that no other run has it. */
static void own_file(char *own, size_t size, unsigned long nr)
{
	snprintf(own, size, "%s.%lu", path, nr);
}

void testcase_prepare(unsigned long nr_tasks)
{
	int fd = mkstemp(path);

	if (fd < 0 || close(fd))
		die("access1: mkstemp");
	nr_files = nr_tasks;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char own[64];
	int fd;

	own_file(own, sizeof(own), nr);
	/* Created here, not in prepare: the inode then lies on the task's node, beside no other task's. */
	fd = open(own, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || close(fd))
		die("access1: create");

	while (1) {
		if (access(own, R_OK))
			die("access1: access");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	char own[64];

	for (unsigned long nr = 0; nr < nr_files; nr++) {
		own_file(own, sizeof(own), nr);
		unlink(own);
	}
	if (unlink(path))
		die("access1: unlink");
}
