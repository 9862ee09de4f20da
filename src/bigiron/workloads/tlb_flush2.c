// SPDX-License-Identifier: GPL-2.0-or-later
/* Flushes one page of the TLB; allocates and frees a page: mmap_lock or the VMA's lock, zone and LRU locks. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN (1 << 20)

char *testcase_description = "write a page of the task's own anonymous memory, drop it, read it";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	size_t page = getpagesize();

	(void)nr;

	while (1) {
		volatile char *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (mem == MAP_FAILED)
			die("tlb_flush2: mmap");
		for (size_t i = 0; i < LEN; i += page) {
			mem[i] = 1;
			if (madvise((void *)(mem + i), page, MADV_DONTNEED))
				die("tlb_flush2: MADV_DONTNEED");
			(void)mem[i];
			(*iterations)++;
		}
		if (munmap((void *)mem, LEN))
			die("tlb_flush2: munmap");
	}
}
