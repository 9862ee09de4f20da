// SPDX-License-Identifier: GPL-2.0-or-later
/* Threads that share a variable, a piece of the heap, and a buffer into which the kernel copies. */
#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

char *testcase_description = "count in a variable and on the heap, and read into a buffer, all shared";

#define LINE 64

static unsigned long variable __attribute__((aligned(LINE)));
static char buffer[LINE] __attribute__((aligned(LINE)));
static unsigned long *heap;
static int file;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	heap = aligned_alloc(LINE, LINE);
	file = open("/tmp/file", O_RDWR | O_CREAT, 0600);
	assert(heap && pwrite(file, "8 bytes", 8, 0) == 8);
}

static __attribute__((noinline)) void count(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	unsigned long own = 0;

	(void)nr;
	while (1) {
		count(&variable);
		count(&variable);
		count(heap);
		count(&own);
		assert(pread(file, buffer, 8, 0) == 8);
		(*iterations)++;
	}
}
