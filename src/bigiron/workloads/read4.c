// SPDX-License-Identifier: GPL-2.0-or-later
/* What O_DIRECT takes of the file system and its disk, the shared inode; on tmpfs as read2. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_BYTES (1 << 20)

char *testcase_description = "read the next page of a shared 1 MiB file, past the page cache";

static char path[] = "/tmp/read4.XXXXXX";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase_prepare(unsigned long nr_tasks)
{
	char *content = calloc(1, FILE_BYTES);
	int fd = mkstemp(path);

	(void)nr_tasks;
	if (!content || fd < 0)
		die("read4: mkstemp");
	if (write(fd, content, FILE_BYTES) != FILE_BYTES || close(fd))
		die("read4: write the file");
	free(content);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	size_t page = getpagesize();
	char *buf = aligned_alloc(page, page);
	int fd = open(path, O_RDONLY | O_DIRECT);

	(void)nr;
	/* A tmpfs has had O_DIRECT since 6.6. */
	if (fd < 0)
		die("read4: open with O_DIRECT");
	if (!buf)
		die("read4: aligned_alloc");

	while (1) {
		ssize_t got = read(fd, buf, page);

		if (got < 0)
			die("read4: read");
		/* The end of the file is an operation, too. */
		if (!got && lseek(fd, 0, SEEK_SET))
			die("read4: lseek");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("read4: unlink");
}
