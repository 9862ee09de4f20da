// SPDX-License-Identifier: GPL-2.0-or-later
#include "cpu.h"

#include "xalloc.h"

struct cpus cpus;

void cpus_init(unsigned int nr)
{
	cpus.all = xcalloc(nr, sizeof(*cpus.all));
	cpus.nr = nr;
}

struct cpu *find_cpu(void *state)
{
	unsigned int nr = 0;

	while (nr < cpus.nr - 1 && qemu_get_cpu(nr) != state)
		nr++;
	cpus.running = state;
	return cpus.cpu = &cpus.all[nr];
}
