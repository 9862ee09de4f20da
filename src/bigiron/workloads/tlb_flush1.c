// SPDX-License-Identifier: GPL-2.0-or-later
/* Flushes a page of the TLB; copies and maps pages of the page cache: mmap_lock or the VMA's lock, memcg. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * All of it is written before the first operation: will-it-scale's file, of 128 MiB, has all its pages after
 * its first pass, of 32768 operations, and is unmapped after each. This one is unmapped after 1024 operations,
 * more than a recording has.
 */
#define LEN (4 << 20)

char *testcase_description = "write a page of the task's own file, mapped private, drop it, read it";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/tlb_flush1.XXXXXX";
	char *content = calloc(1, LEN);
	size_t page = getpagesize();
	int fd = mkstemp(path);

	(void)nr;
	if (fd < 0 || unlink(path))
		die("tlb_flush1: mkstemp");
	if (!content || write(fd, content, LEN) != LEN)
		die("tlb_flush1: write the file");
	free(content);

	while (1) {
		volatile char *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

		if (mem == MAP_FAILED)
			die("tlb_flush1: mmap");
		for (size_t i = 0; i < LEN; i += page) {
			mem[i] = 1;
			if (madvise((void *)(mem + i), page, MADV_DONTNEED))
				die("tlb_flush1: MADV_DONTNEED");
			(void)mem[i];
			(*iterations)++;
		}
		if (munmap((void *)mem, LEN))
			die("tlb_flush1: munmap");
	}
}
