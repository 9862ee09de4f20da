// SPDX-License-Identifier: GPL-2.0-or-later
/* The page fault test: threads that fault in their parts of one mapping, a page table or more each. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 64
#define TABLE (2UL << 20) /* what one page table maps */
#define MOST_TASKS 512

char *testcase_description = "fault in 64 pages of the task's part of a mapping that all share, then drop them";

static char *region;

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

__attribute__((constructor)) static void map(void)
{
	size_t len = (MOST_TASKS + 1) * TABLE;
	char *all = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (all == MAP_FAILED)
		die("pft: mmap");
	if (madvise(all, len, MADV_NOHUGEPAGE) && errno != EINVAL)
		die("pft: MADV_NOHUGEPAGE");
	region = (char *)(((uintptr_t)all + TABLE - 1) & -TABLE);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	size_t page = getpagesize(), len = PAGES * page;
	volatile char *mem = region + nr % MOST_TASKS * TABLE;

	while (1) {
		for (size_t i = 0; i < len; i += page)
			mem[i] = 1;
		if (madvise((void *)mem, len, MADV_DONTNEED))
			die("pft: MADV_DONTNEED");
		(*iterations)++;
	}
}
