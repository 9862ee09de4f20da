// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tlb_flush1 with page tables of the task's own. will-it-scale maps 128 MiB: of 64 page tables a task shares one or
 * two with its neighbours. Of 4 MiB, as in the workload that bigiron has, it shares two of three, and their locks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN (4UL << 20)
#define APART (128UL << 20)
#define FIRST (1UL << 44)

char *testcase_description = "write a page of the task's own file, mapped private, drop it, read it";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/tlb_flush1.XXXXXX";
	char *content = calloc(1, LEN), *where = (char *)(FIRST + nr * APART);
	size_t page = getpagesize();
	int fd = mkstemp(path);

	if (fd < 0 || unlink(path))
		die("tlb_flush1_apart: mkstemp");
	if (!content || write(fd, content, LEN) != (ssize_t)LEN)
		die("tlb_flush1_apart: write the file");
	free(content);

	while (1) {
		volatile char *mem = mmap(where, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

		if (mem != where)
			die("tlb_flush1_apart: mmap");
		for (size_t i = 0; i < LEN; i += page) {
			mem[i] = 1;
			if (madvise((void *)(mem + i), page, MADV_DONTNEED))
				die("tlb_flush1_apart: MADV_DONTNEED");
			(void)mem[i];
			(*iterations)++;
		}
		if (munmap((void *)mem, LEN))
			die("tlb_flush1_apart: munmap");
	}
}
