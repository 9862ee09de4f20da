// SPDX-License-Identifier: GPL-2.0-or-later
/* Maps pages of the page cache, many in one fault: their reference and map counts, mmap_lock or the VMA's lock. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* An operation is a pass over 64 pages, as in page_fault1; here the file's own stay in the page cache. */
#define PAGES 64
#define LEN (128UL << 20) /* what is mapped, past the file's end */

char *testcase_description = "fault in 64 pages of the task's own file for reading, then drop them";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/page_fault4.XXXXXX";
	size_t page = getpagesize();
	size_t len = PAGES * page;
	int fd = mkstemp(path);
	volatile char *mem;

	(void)nr;
	if (fd < 0 || unlink(path))
		die("page_fault4: mkstemp");
	/* Not ftruncate(): will-it-scale's file has all its pages after its first pass. */
	errno = posix_fallocate(fd, 0, len);
	if (errno)
		die("page_fault4: posix_fallocate");
	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (mem == MAP_FAILED)
		die("page_fault4: mmap");

	while (1) {
		for (size_t i = 0; i < len; i += page)
			(void)mem[i];
		if (madvise((void *)mem, len, MADV_DONTNEED))
			die("page_fault4: MADV_DONTNEED");
		(*iterations)++;
	}
}
