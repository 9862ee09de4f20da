// SPDX-License-Identifier: GPL-2.0-or-later
/* Cached pages of a file that all tasks map: their map counts, page tables, fault-around; mmap_lock. */
/* As lat_pagefault: the file's pages in random order, then munmap and mmap. */
#include "lmbench.h"

char *testcase_description = "map a shared file of 1 MiB, and read its pages in random order";
char *testcase_differs = "a file of 1 MiB";

#define PAGE 4096UL
#define PAGES 256
#define STEP 97 /* has no divisor in common with PAGES: each page comes once */

static char path[] = "/tmp/lmbench.XXXXXX";

void testcase_prepare(unsigned long nr_tasks)
{
	static const char page[PAGE] = "page";
	int fd = mkstemp(path);

	(void)nr_tasks;
	if (fd < 0)
		die("pagefault: mkstemp");
	for (int pages = 0; pages < PAGES; pages++)
		if (write(fd, page, PAGE) != (ssize_t)PAGE)
			die("pagefault: write");
	close(fd);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open(path, O_RDONLY);

	(void)nr;
	while (1) {
		volatile char *file = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);

		if (file == MAP_FAILED || msync((void *)file, PAGES * PAGE, MS_INVALIDATE))
			die("pagefault: mmap");
		for (int pages = 0; pages < PAGES; pages++)
			file[pages * STEP % PAGES * PAGE];
		munmap((void *)file, PAGES * PAGE);
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	unlink(path);
}
