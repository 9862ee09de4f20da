// SPDX-License-Identifier: GPL-2.0-or-later
/* page_fault3 with its mapping and unmapping; of will-it-scale's 128 MiB it touches 2, as a trace has no room for more. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 512
#define LEN (128UL << 20)

char *testcase_description = "map 128 MiB of the task's own file, write to each of its 512 pages, unmap it";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/page_fault3.XXXXXX";
	size_t page = getpagesize(), len = PAGES * page;
	int fd = mkstemp(path);

	(void)nr;
	if (fd < 0 || unlink(path))
		die("page_fault3_whole: mkstemp");
	errno = posix_fallocate(fd, 0, len);
	if (errno)
		die("page_fault3_whole: posix_fallocate");
	while (1) {
		volatile char *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (mem == MAP_FAILED)
			die("page_fault3_whole: mmap");
		for (size_t i = 0; i < len; i += page)
			mem[i] = 1;
		if (munmap((void *)mem, LEN))
			die("page_fault3_whole: munmap");
		(*iterations)++;
	}
}
