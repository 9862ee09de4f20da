// SPDX-License-Identifier: GPL-2.0-or-later
/* Cached pages of a file that all tasks map: their map counts, page tables, fault-around; mmap_lock. */
/* As lat_pagefault: the file's pages in random order, then munmap and mmap. */
#include "lmbench.h"

char *testcase_description = "map a shared file of 1 MiB, and read its pages in random order";
char *testcase_differs = "a file of 1 MiB";

#define BYTES (1UL << 20)
#define STEP 97 /* has no divisor in common with the number of pages: each comes once */

static char path[] = "/tmp/lmbench.XXXXXX";

void testcase_prepare(unsigned long nr_tasks)
{
	static const char piece[4096] = "piece";
	int fd = mkstemp(path);

	(void)nr_tasks;
	if (fd < 0)
		die("pagefault: mkstemp");
	for (unsigned long bytes = 0; bytes < BYTES; bytes += sizeof(piece))
		if (write(fd, piece, sizeof(piece)) != sizeof(piece))
			die("pagefault: write");
	close(fd);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	unsigned long page = getpagesize(), pages = BYTES / page;
	int fd = open(path, O_RDONLY);

	(void)nr;
	while (1) {
		volatile char *file = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, fd, 0);

		if (file == MAP_FAILED || msync((void *)file, BYTES, MS_INVALIDATE))
			die("pagefault: mmap");
		for (unsigned long at = 0; at < pages * STEP; at += STEP)
			file[(at & (pages - 1)) * page];
		munmap((void *)file, BYTES);
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	unlink(path);
}
