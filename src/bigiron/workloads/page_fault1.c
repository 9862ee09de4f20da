// SPDX-License-Identifier: GPL-2.0-or-later
/* Allocates, zeroes, frees pages: mmap_lock or the VMA's lock, zone and LRU locks, memcg. */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * An operation is a pass over 64 pages, not one fault: a page given back at once would come from
 * the CPU's own free list and memcg stock for ever, and giving it back would cost as much as its
 * fault. The mapping itself stays: mapping is mmap1's.
 */
#define PAGES 64
#define LEN (128UL << 20) /* what is mapped, as in will-it-scale: no other thread's pages are in this page table */

char *testcase_description = "fault in 64 pages of the task's own anonymous memory, then drop them";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	size_t page = getpagesize();
	size_t len = PAGES * page;
	volatile char *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)nr;
	if (mem == MAP_FAILED)
		die("page_fault1: mmap");
	/* Threads' mappings may be merged and grow huge pages; a kernel that has none says EINVAL. */
	if (madvise((void *)mem, LEN, MADV_NOHUGEPAGE) && errno != EINVAL)
		die("page_fault1: MADV_NOHUGEPAGE");

	while (1) {
		for (size_t i = 0; i < len; i += page)
			mem[i] = 1;
		if (madvise((void *)mem, len, MADV_DONTNEED))
			die("page_fault1: MADV_DONTNEED");
		(*iterations)++;
	}
}
