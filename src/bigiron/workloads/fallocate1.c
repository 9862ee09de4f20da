// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of tmpfs: the file's i_rwsem and i_pages, zone and LRU locks, memcg, the superblock's free blocks. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define FILE_BYTES (1 << 20)
#define LEN (FILE_BYTES / 128)

char *testcase_description = "fallocate the next 8 KiB of the task's own file in /dev/shm, up to 1 MiB";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/dev/shm/fallocate1.XXXXXX";
	int fd = mkstemp(path);
	off_t end = 0;

	(void)nr;
	if (fd < 0 || unlink(path))
		die("fallocate1: mkstemp in /dev/shm");

	while (1) {
		if (fallocate(fd, 0, end, LEN))
			die("fallocate1: fallocate");
		end += LEN;
		if (end == FILE_BYTES) {
			if (ftruncate(fd, 0))
				die("fallocate1: ftruncate");
			end = 0;
		}
		(*iterations)++;
	}
}
