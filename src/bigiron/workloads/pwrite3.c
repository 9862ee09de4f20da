// SPDX-License-Identifier: GPL-2.0-or-later
/* One inode: its i_rwsem and times; pages of its page cache, one per task. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "pwrite 4096 bytes to the task's own page of a shared file";

static char path[] = "/tmp/pwrite3.XXXXXX";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* A page of the file for each task. */
void testcase_prepare(unsigned long nr_tasks)
{
	char buf[LEN] = { 0 };
	off_t bytes = getpagesize() * nr_tasks;
	int fd = mkstemp(path);

	if (fd < 0)
		die("pwrite3: mkstemp");
	for (off_t done = 0; done < bytes; done += LEN)
		if (write(fd, buf, LEN) != LEN)
			die("pwrite3: write the file");
	if (close(fd))
		die("pwrite3: close");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char buf[LEN] = { 0 };
	off_t offset = getpagesize() * nr;
	int fd = open(path, O_RDWR);

	if (fd < 0)
		die("pwrite3: open");

	while (1) {
		if (pwrite(fd, buf, LEN, offset) != LEN)
			die("pwrite3: pwrite");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("pwrite3: unlink");
}
