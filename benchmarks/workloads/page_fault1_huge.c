// SPDX-License-Identifier: GPL-2.0-or-later
/* page_fault1 where transparent huge pages are always on: a fault clears 2 MiB. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define HUGE_PAGE (2UL << 20)
#define BYTES (2 * HUGE_PAGE)

char *testcase_description = "touch each of 1024 pages of anonymous memory, which two faults map, then drop them";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	size_t page = getpagesize();
	char *all = mmap(NULL, BYTES + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile char *mem;

	(void)nr;
	if (all == MAP_FAILED)
		die("page_fault1_huge: mmap");
	if (madvise(all, BYTES + HUGE_PAGE, MADV_HUGEPAGE))
		die("page_fault1_huge: MADV_HUGEPAGE");
	mem = (char *)(((uintptr_t)all + HUGE_PAGE - 1) & -HUGE_PAGE);

	while (1) {
		for (size_t i = 0; i < BYTES; i += page)
			mem[i] = 1;
		if (madvise((void *)mem, BYTES, MADV_DONTNEED))
			die("page_fault1_huge: MADV_DONTNEED");
		(*iterations)++;
	}
}
