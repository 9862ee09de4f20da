// SPDX-License-Identifier: GPL-2.0-or-later
/* page_fault1, with the pages of each task under a page table of its own, as of a mapping of 128 MiB. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 64
#define TABLE (2UL << 20) /* what one page table maps */

char *testcase_description = "fault in 64 pages of anonymous memory far from other tasks', then drop them";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	size_t page = getpagesize(), len = PAGES * page;
	char *all = mmap(NULL, 2 * TABLE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile char *mem;

	(void)nr;
	if (all == MAP_FAILED)
		die("page_fault1_apart: mmap");
	if (madvise(all, 2 * TABLE, MADV_NOHUGEPAGE) && errno != EINVAL)
		die("page_fault1_apart: MADV_NOHUGEPAGE");
	mem = (char *)(((uintptr_t)all + TABLE - 1) & -TABLE);

	while (1) {
		for (size_t i = 0; i < len; i += page)
			mem[i] = 1;
		if (madvise((void *)mem, len, MADV_DONTNEED))
			die("page_fault1_apart: MADV_DONTNEED");
		(*iterations)++;
	}
}
