// SPDX-License-Identifier: GPL-2.0-or-later
/* User space: counters on cache lines of their own; a thread whose exchange fails goes on to the next. */
#include <stdatomic.h>

char *testcase_description = "add to one of many counters by compare and exchange";

#define COUNTERS 64

static struct {
	_Alignas(64) atomic_ulong counter;
} counters[COUNTERS];
static _Thread_local unsigned long mine;

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		while (1) {
			unsigned long seen = atomic_load(&counters[mine].counter);

			if (atomic_compare_exchange_strong(&counters[mine].counter, &seen, seen + 1))
				break;
			mine = (mine + 1) % COUNTERS;
		}
		(*iterations)++;
	}
}
