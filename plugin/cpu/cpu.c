// SPDX-License-Identifier: GPL-2.0-or-later
#include "cpu/cpu.h"

#include <pthread.h>

#include "lib/xalloc.h"

struct cpus cpus;

void cpus_init(unsigned int nr)
{
	cpus.all = xcalloc(nr, sizeof(*cpus.all));
	cpus.nr = nr;
	cpus.line_tables = xcalloc(nr, sizeof(*cpus.line_tables));
	cpus.shared_line_tables = xcalloc(nr, sizeof(*cpus.shared_line_tables));
	cpus.instruction_tables = xcalloc(nr, sizeof(*cpus.instruction_tables));
	cpus.lock_tables = xcalloc(nr, sizeof(*cpus.lock_tables));
	for (unsigned int i = 0; i < nr; i++) {
		cpus.line_tables[i] = &cpus.all[i].lines;
		cpus.shared_line_tables[i] = &cpus.all[i].shared_lines;
		cpus.instruction_tables[i] = &cpus.all[i].instructions;
		cpus.lock_tables[i] = &cpus.all[i].locks.table;
	}
}

bool cpus_have_one_thread(void)
{
	static pthread_t first;
	pthread_t none = 0;

	/* Several may come here at once. */
	__atomic_compare_exchange_n(&first, &none, pthread_self(), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return pthread_equal(__atomic_load_n(&first, __ATOMIC_RELAXED), pthread_self());
}

static void *state_of(struct cpu *cpu)
{
	if (!cpu->state)
		cpu->state = qemu_get_cpu(cpu - cpus.all);
	return cpu->state;
}

static struct cpu *after(struct cpu *cpu)
{
	return cpu + 1 == cpus.all + cpus.nr ? cpus.all : cpu + 1;
}

/* CPUs take turns in their order: it is mostly the next one. QEMU itself searches a list from its beginning. */
struct cpu *find_cpu(void *state)
{
	struct cpu *cpu = cpus.cpu ? cpus.cpu : cpus.all;

	for (unsigned int tries = 0; tries < cpus.nr; tries++) {
		cpu = after(cpu);
		if (state_of(cpu) == state)
			break;
	}
	cpus.running = state;
	return cpus.cpu = cpu;
}

void *next_cpu_state(void)
{
	return state_of(after(this_cpu()));
}
