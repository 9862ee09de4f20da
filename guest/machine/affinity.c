// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "affinity.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

static int has(const struct cpus *cpus, int cpu)
{
	return CPU_ISSET_S(cpu, sizeof(*cpus), (const cpu_set_t *)cpus);
}

int allowed_cpus(struct cpus *cpus)
{
	return sched_getaffinity(0, sizeof(*cpus), (cpu_set_t *)cpus);
}

int allow_cpus(const struct cpus *cpus)
{
	return sched_setaffinity(0, sizeof(*cpus), (const cpu_set_t *)cpus);
}

unsigned long count_cpus(const struct cpus *cpus)
{
	return CPU_COUNT_S(sizeof(*cpus), (const cpu_set_t *)cpus);
}

int nth_cpu(unsigned long n, const struct cpus *cpus)
{
	int cpu = -1;

	n %= count_cpus(cpus);
	do {
		cpu++;
	} while (!has(cpus, cpu) || n--);
	return cpu;
}

void first_cpus(unsigned long n, struct cpus *cpus)
{
	for (int cpu = MOST_CPUS - 1; count_cpus(cpus) > n; cpu--)
		CPU_CLR_S(cpu, sizeof(*cpus), (cpu_set_t *)cpus);
}

int read_cpus(const char *list, struct cpus *cpus)
{
	char *end = (char *)list;

	memset(cpus, 0, sizeof(*cpus));
	do {
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (last < first || last >= MOST_CPUS || (*end && *end != ','))
			return errno = EINVAL, -1;
		for (unsigned long cpu = first; cpu <= last; cpu++)
			CPU_SET_S(cpu, sizeof(*cpus), (cpu_set_t *)cpus);
		list = end + 1;
	} while (*end);
	return 0;
}

int pin(pid_t thread, int cpu)
{
	struct cpus one = { { 0 } };

	CPU_SET_S(cpu, sizeof(one), (cpu_set_t *)&one);
	return sched_setaffinity(thread, sizeof(one), (const cpu_set_t *)&one);
}
