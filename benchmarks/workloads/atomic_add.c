// SPDX-License-Identifier: GPL-2.0-or-later
/* User space: an atomic addition to one counter. */
#include <stdatomic.h>

char *testcase_description = "add to a counter that all threads share, atomically";

static atomic_ulong counter;

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		atomic_fetch_add_explicit(&counter, 1, memory_order_relaxed);
		(*iterations)++;
	}
}
