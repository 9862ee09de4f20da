// SPDX-License-Identifier: GPL-2.0-or-later
/* The heap's VMA, and 16 pages that are freed, allocated and zeroed: zone and LRU lists, memory cgroup. */
/* As page_test(), whose loop of 16 pages is an operation here. Threads have one heap, and take turns. */
#include "aim9.h"

char *testcase_description = "shrink the heap by 16 pages, and grow it again page by page, each written to";

#define PAGE 4096

static pthread_mutex_t heap = PTHREAD_MUTEX_INITIALIZER;

static char *grow(long bytes)
{
	char *before = sbrk(bytes);

	if (before == (void *)-1)
		die("page_test: sbrk");
	return before;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	pthread_mutex_lock(&heap);
	grow(1024 * 1024);
	pthread_mutex_unlock(&heap);
	while (1) {
		pthread_mutex_lock(&heap);
		grow(-16 * PAGE);
		for (int pages = 0; pages < 16; pages++) {
			volatile char *page = grow(PAGE);

			for (int byte = 0; byte < PAGE; byte += 128)
				page[byte] = ' ';
		}
		pthread_mutex_unlock(&heap);
		(*iterations)++;
	}
}
