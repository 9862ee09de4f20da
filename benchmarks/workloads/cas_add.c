// SPDX-License-Identifier: GPL-2.0-or-later
/* User space: compare and exchange of one counter, tried until it succeeds. */
#include <stdatomic.h>

char *testcase_description = "add to a counter that all threads share, by compare and exchange";

static atomic_ulong counter;

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		unsigned long seen = atomic_load(&counter);

		while (!atomic_compare_exchange_weak(&counter, &seen, seen + 1))
			;
		(*iterations)++;
	}
}
