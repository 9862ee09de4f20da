// SPDX-License-Identifier: GPL-2.0-or-later
/* A mapping that comes and goes: mmap_lock, VMAs, the file's list of them; pages that are written. */
/* As lat_mmap: a page in each 16 KiB of the file's first tenth is written. */
#include "lmbench.h"

char *testcase_description = "map 1 MiB of a shared file, write to seven pages, unmap it";
char *testcase_differs = "a file of 1 MiB";

#define BYTES (1UL << 20)
#define APART (16UL << 10)

static char path[] = "/tmp/lmbench.XXXXXX";

void testcase_prepare(unsigned long nr_tasks)
{
	int fd = mkstemp(path);

	(void)nr_tasks;
	if (fd < 0 || ftruncate(fd, BYTES))
		die("mmap: mkstemp");
	close(fd);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open(path, O_RDWR);

	(void)nr;
	while (1) {
		volatile char *file = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		if (file == MAP_FAILED)
			die("mmap: mmap");
		for (unsigned long byte = 0; byte < BYTES / 10; byte += APART)
			file[byte] = 1;
		munmap((void *)file, BYTES);
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	unlink(path);
}
