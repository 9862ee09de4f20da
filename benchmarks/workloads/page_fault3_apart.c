// SPDX-License-Identifier: GPL-2.0-or-later
/* page_fault3, with the pages of each task under a page table of its own, as of a mapping of 128 MiB. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 64
#define TABLE (2UL << 20) /* what one page table maps */

char *testcase_description = "fault in 64 pages of the task's own file far from other tasks', then drop them";

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
	volatile char *mem;
	char *room;

	(void)nr;
	if (fd < 0 || unlink(path))
		die("page_fault3_apart: mkstemp");
	errno = posix_fallocate(fd, 0, len);
	if (errno)
		die("page_fault3_apart: posix_fallocate");
	room = mmap(NULL, 2 * TABLE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room == MAP_FAILED)
		die("page_fault3_apart: mmap");
	room = (char *)(((uintptr_t)room + TABLE - 1) & -TABLE);
	mem = mmap(room, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	if (mem == MAP_FAILED)
		die("page_fault3_apart: mmap of the file");

	while (1) {
		for (size_t i = 0; i < len; i += page)
			mem[i] = 1;
		if (madvise((void *)mem, len, MADV_DONTNEED))
			die("page_fault3_apart: MADV_DONTNEED");
		(*iterations)++;
	}
}
