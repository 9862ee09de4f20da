/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For workloads that compute and never ask the kernel for anything. */
#ifndef SPIN_H
#define SPIN_H

#define SPIN_STEPS 1000

static inline void __attribute__((noreturn)) spin(unsigned long long *iterations)
{
	volatile unsigned long number = 0;

	while (1) {
		for (int i = 0; i < SPIN_STEPS; i++)
			number = number * 6364136223846793005ul + 1442695040888963407ul;
		++*iterations;
		/* The loop has no end after which a compiler would have to write the count down. */
		asm volatile("" : : : "memory");
	}
}

#endif
