// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of one file's page cache: their reference counts, the shared i_pages and inode; own struct files. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LEN 4096
#define FILE_BYTES (1 << 20)

char *testcase_description = "read the next 4096 cached bytes of a shared 1 MiB file";

static char path[] = "/tmp/read2.XXXXXX";

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
		die("read2: mkstemp");
	if (write(fd, content, FILE_BYTES) != FILE_BYTES || close(fd))
		die("read2: write the file");
	free(content);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char buf[LEN];
	int fd = open(path, O_RDONLY);

	(void)nr;
	if (fd < 0)
		die("read2: open");

	while (1) {
		ssize_t got = read(fd, buf, LEN);

		if (got < 0)
			die("read2: read");
		/* The end of the file is an operation, too. */
		if (!got && lseek(fd, 0, SEEK_SET))
			die("read2: lseek");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	if (unlink(path))
		die("read2: unlink");
}
