// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct cpus cpus;

/* Whole pages, as a CPU begins on a line of the host's: calloc() does not see to that. */
void cpus_init(unsigned int nr)
{
	cpus.all = mmap(NULL, nr * sizeof(*cpus.all), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (cpus.all == MAP_FAILED) {
		fprintf(stderr, "recorder: no memory for %u CPUs\n", nr);
		abort();
	}
	cpus.nr = nr;
}

static bool has_state(struct cpu *cpu, const void *state)
{
	if (!cpu->state)
		cpu->state = qemu_get_cpu(cpu - cpus.all);
	return cpu->state == state;
}

/* CPUs take turns in their order: it is mostly the next one. QEMU itself searches a list from its beginning. */
struct cpu *find_cpu(void *state)
{
	struct cpu *cpu = cpus.cpu ? cpus.cpu : cpus.all;

	for (unsigned int tries = 0; tries < cpus.nr; tries++) {
		if (++cpu == cpus.all + cpus.nr)
			cpu = cpus.all;
		if (has_state(cpu, state))
			break;
	}
	cpus.running = state;
	return cpus.cpu = cpu;
}
