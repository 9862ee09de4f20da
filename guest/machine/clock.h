/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef CLOCK_H
#define CLOCK_H

#include <stdint.h>
#include <time.h>

/* The clock that the kernel's tracers and BPF programs read too. */
static inline uint64_t clock_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000000000ull + time.tv_nsec;
}

/* After a change of the clock's speed: the vDSO would follow with the next tick, and timers when they are set. */
static inline void set_clock(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	clock_settime(CLOCK_REALTIME, &now);
}

#endif
