// SPDX-License-Identifier: GPL-2.0-or-later
/* mmap_lock for writing, VMA tree; vm_committed_as, past its batch if RAM/CPU is under 512 MiB. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN (128UL << 20)

char *testcase_description = "mmap and munmap 128 MiB of anonymous memory, untouched";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		void *mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (mem == MAP_FAILED)
			die("mmap1: mmap");
		if (munmap(mem, LEN))
			die("mmap1: munmap");
		(*iterations)++;
	}
}
