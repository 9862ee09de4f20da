// SPDX-License-Identifier: GPL-2.0-or-later
/* mmap_lock for writing, VMA tree, the accounting of memory, the file's i_mmap_rwsem and i_mmap tree. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN (128UL << 20)

char *testcase_description = "mmap and munmap 128 MiB of the task's own file, private, untouched";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[] = "/tmp/mmap2.XXXXXX";
	int fd = mkstemp(path);

	(void)nr;
	if (fd < 0 || unlink(path))
		die("mmap2: mkstemp");
	if (ftruncate(fd, LEN))
		die("mmap2: ftruncate");

	while (1) {
		void *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

		if (mem == MAP_FAILED)
			die("mmap2: mmap");
		if (munmap(mem, LEN))
			die("mmap2: munmap");
		(*iterations)++;
	}
}
