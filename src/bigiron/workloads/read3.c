// SPDX-License-Identifier: GPL-2.0-or-later
/* What O_DIRECT takes of the file system and its disk, the buffer's page reference; on tmpfs as read1. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES (1 << 20)

char *testcase_description = "read the next page of the task's own 1 MiB file, past the page cache";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/read3.XXXXXX";
	size_t page = getpagesize();
	char *content = aligned_alloc(page, FILE_BYTES);
	int fd = mkostemp(path, O_DIRECT);

	(void)nr;
	/* A tmpfs has had O_DIRECT since 6.6. */
	if (fd < 0 || unlink(path))
		die("read3: mkostemp with O_DIRECT");
	if (!content)
		die("read3: aligned_alloc");
	memset(content, 0, FILE_BYTES);
	if (write(fd, content, FILE_BYTES) != FILE_BYTES || lseek(fd, 0, SEEK_SET))
		die("read3: write the file");

	while (1) {
		ssize_t got = read(fd, content, page);

		if (got < 0)
			die("read3: read");
		/* The end of the file is an operation, too. */
		if (!got && lseek(fd, 0, SEEK_SET))
			die("read3: lseek");
		(*iterations)++;
	}
}
