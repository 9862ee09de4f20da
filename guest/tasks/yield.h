/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The end of a CPU's time slice, on an emulator that runs all CPUs in one thread. */
#ifndef YIELD_H
#define YIELD_H

/* QEMU runs the next CPU at once; in user mode it does so on POWER for every `or` that sets a thread's priority. */
static inline void let_another_run(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__powerpc64__)
	asm volatile("or 27,27,27"); /* yield, which leaves the priority as it is */
#elif defined(__aarch64__)
	asm volatile("yield");
#endif
}

#endif
