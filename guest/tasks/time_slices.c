// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "time_slices.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "yield.h"

static const unsigned long long never;
static __thread const volatile unsigned long long *count = &never, *target = &never;
static __thread unsigned int *tasks_below_target;
static __thread unsigned long long seen;
static __thread unsigned long long reached; /* the last target that was */
static __thread unsigned long long ended; /* the count when the last time slice ended */
static unsigned long operations_per_slice = 1, time_slice_seed;
static __thread unsigned long long chance; /* the state of the random numbers; 0: none are used */

void __sanitizer_cov_trace_pc(void);

void set_time_slices(unsigned long operations, unsigned long seed)
{
	operations_per_slice = operations ? operations : 1;
	time_slice_seed = seed;
}

void end_time_slices_with(const unsigned long long *operations, const volatile unsigned long long *own_target,
		    unsigned int *all_below_target, unsigned long nr)
{
	count = operations;
	target = own_target;
	tasks_below_target = all_below_target;
	seen = ended = *operations;
	/* Odd multiples of an odd number: all different, and none is 0. */
	chance = time_slice_seed ? (2 * (time_slice_seed * 1000003 + nr) + 1) * 0x9e3779b97f4a7c15 : 0;
}

void end_no_time_slices(void)
{
	count = &never;
	seen = ended = never;
}

/* Marsaglia's xorshift: the highest bit is as good as any. */
static int toss_coin(void)
{
	chance ^= chance << 13;
	chance ^= chance >> 7;
	chance ^= chance << 17;
	return chance >> 63;
}

static void reach(unsigned long long now)
{
	reached = now;
	if (!__atomic_sub_fetch(tasks_below_target, 1, __ATOMIC_RELAXED))
		syscall(SYS_futex, tasks_below_target, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void __sanitizer_cov_trace_pc(void)
{
	unsigned long long now = *count;

	if (now == seen)
		return;
	seen = now;
	if (*target != reached && now >= *target)
		reach(*target);
	if (chance ? toss_coin() : now - ended < operations_per_slice)
		return;
	ended = now;
	let_another_run();
}
