// SPDX-License-Identifier: GPL-2.0-or-later
/* The path walk, the dentry's d_lockref, the inode's attributes, LSM's hook. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *testcase_description = "stat the task's own file";

static char path[] = "/tmp/stat1.XXXXXX";
static unsigned long nr_files;

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* "/tmp/stat1.XXXXXX.3": prepare takes the name without a number, so that no other run has it. */
static void own_file(char *own, size_t size, unsigned long nr)
{
	snprintf(own, size, "%s.%lu", path, nr);
}

void testcase_prepare(unsigned long nr_tasks)
{
	int fd = mkstemp(path);

	if (fd < 0 || close(fd))
		die("stat1: mkstemp");
	nr_files = nr_tasks;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char own[64];
	struct stat status;
	int fd;

	own_file(own, sizeof(own), nr);
	/* Created here, not in prepare: the inode then lies on the task's node, beside no other task's. */
	fd = open(own, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || close(fd))
		die("stat1: create");

	while (1) {
		if (stat(own, &status))
			die("stat1: stat");
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
		die("stat1: unlink");
}
