// SPDX-License-Identifier: GPL-2.0-or-later
/* One inode: its i_rwsem and times; pages of its page cache, one per task. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096

char *testcase_description = "lseek to the task's own page of a shared file, write 4096 bytes";

static char path[] = "/tmp/writeseek3.XXXXXX";

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
		die("writeseek3: mkstemp");
	for (off_t done = 0; done < bytes; done += LEN)
		if (write(fd, buf, LEN) != LEN)
			die("writeseek3: write the file");
	if (close(fd))
		die("writeseek3: close");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char buf[LEN] = { 0 };
	off_t offset = getpagesize() * nr;
	int fd = open(path, O_RDWR);

	if (fd < 0)
		die("writeseek3: open");

	while (1) {
		if (lseek(fd, offset, SEEK_SET) != offset)
			die("writeseek3: lseek");
		if (write(fd, buf, LEN) != LEN)
			die("writeseek3: write");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("writeseek3: unlink");
}
