// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of one file's page cache, one per task: their reference counts, the shared i_pages and inode. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "pread 4096 cached bytes of the task's own page of a shared file";

static char path[] = "/tmp/pread3.XXXXXX";

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
		die("pread3: mkstemp");
	for (off_t done = 0; done < bytes; done += LEN)
		if (write(fd, buf, LEN) != LEN)
			die("pread3: write the file");
	if (close(fd))
		die("pread3: close");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char buf[LEN] = { 0 };
	off_t offset = getpagesize() * nr;
	int fd = open(path, O_RDONLY);

	if (fd < 0)
		die("pread3: open");

	while (1) {
		if (pread(fd, buf, LEN, offset) != LEN)
			die("pread3: pread");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("pread3: unlink");
}
