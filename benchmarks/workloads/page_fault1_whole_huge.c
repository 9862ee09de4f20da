// SPDX-License-Identifier: GPL-2.0-or-later
/* page_fault1 with its mapping and unmapping, where transparent huge pages are always on. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN (128UL << 20)

char *testcase_description = "map 128 MiB of anonymous memory, of huge pages, touch each of its 32768 pages, unmap it";

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
			die("page_fault1_whole_huge: mmap");
		for (size_t i = 0; i < LEN; i += page)
			mem[i] = 1;
		if (munmap((void *)mem, LEN))
			die("page_fault1_whole_huge: munmap");
		(*iterations)++;
	}
}
