/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which CPUs a task may use, on machines of more than the 1024 that a cpu_set_t has. */
#ifndef AFFINITY_H
#define AFFINITY_H

#include <sys/types.h>

#define MOST_CPUS 8192 /* that Linux is built for, on x86 (arch/x86/Kconfig, MAXSMP) */

struct cpus {
	unsigned long bits[MOST_CPUS / 8 / sizeof(long)];
};

/* Those online that this process may use, and the only ones that it uses from now on. Both return 0, or -1 with errno. */
int allowed_cpus(struct cpus *cpus);
int allow_cpus(const struct cpus *cpus);

unsigned long count_cpus(const struct cpus *cpus);
int nth_cpu(unsigned long n, const struct cpus *cpus); /* counted round */
/* "0-3,8". Returns 0, or -1 with errno. */
int read_cpus(const char *list, struct cpus *cpus);
void first_cpus(unsigned long n, struct cpus *cpus); /* drop the others */

/* Have a thread, 0 for the caller, run on one CPU. Returns 0, or -1 with errno. */
int pin(pid_t thread, int cpu);

#endif
