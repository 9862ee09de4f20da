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

#endif
