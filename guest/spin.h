/* SPDX-License-Identifier: GPL-2.0-or-later */
/* For workloads that compute and never ask the kernel for anything. */
#ifndef SPIN_H
#define SPIN_H

#define SPIN_STEPS 1000

/* A hint that another may run: in an emulator all CPUs have their turn soon, and a processor pauses for some cycles. */
static inline void relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__powerpc64__)
	asm volatile("or 27,27,27");
#elif defined(__aarch64__)
	asm volatile("yield");
#endif
}

static inline void __attribute__((noreturn)) spin(unsigned long long *iterations)
{
	volatile unsigned long number = 0;

	while (1) {
		for (int i = 0; i < SPIN_STEPS; i++)
			number = number * 6364136223846793005ul + 1442695040888963407ul;
		relax();
		++*iterations;
	}
}

#endif
