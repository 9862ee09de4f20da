// SPDX-License-Identifier: GPL-2.0-or-later
/* User memory only (--scope user): the counters of counters_packed, each in a line of 64 bytes, two lines a pair of 128. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_TASKS 8192

char *testcase_description = "count in user memory, two tasks' lines in each pair of 128 bytes";

/* Whole pages, which have 64 KiB on POWER. */
static struct counter {
	unsigned long count;
	char padding[64 - sizeof(unsigned long)];
} counters[MAX_TASKS] __attribute__((aligned(65536)));

void testcase_prepare(unsigned long nr_tasks)
{
	/* One memory for all tasks, be they threads or processes. */
	if (nr_tasks > MAX_TASKS || mmap(counters, sizeof(counters), PROT_READ | PROT_WRITE,
					 MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
		perror("counters_paired: mmap");
		_exit(1);
	}
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	while (1) {
		counters[nr].count++;
		(*iterations)++;
		asm volatile("" : : : "memory"); /* no system call makes the compiler write either to memory */
	}
}
