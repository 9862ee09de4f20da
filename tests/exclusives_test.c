// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives what the recorder makes of exclusive loads and stores, with a stand-in for QEMU. Standard input:
 *
 *	CPU load SHIFT LOW HIGH		an exclusive load of 1 << SHIFT bytes reads this
 *	CPU store SHIFT LOW HIGH	an exclusive store to the same address finds this
 *
 * Standard output: of each store whether it is a write.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plugin/cpu/cpu.h"
#include "../plugin/memory/exclusives.h"

#define NR_CPUS 4
#define STORE (1u << 16)

static char states[NR_CPUS];
static struct cpu all[NR_CPUS];
static qemu_plugin_mem_value value;
static qemu_plugin_vcpu_mem_cb_t on_load;

__thread void *current_cpu;
struct cpus cpus = { .all = all, .nr = NR_CPUS };

struct cpu *find_cpu(void *state)
{
	cpus.running = state;
	return cpus.cpu = &all[(char *)state - states];
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_mem_cb_t callback,
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw, void *userdata)
{
	(void)insn, (void)flags, (void)rw, (void)userdata;
	on_load = callback;
}

qemu_plugin_mem_value qemu_plugin_mem_get_value(qemu_plugin_meminfo_t info)
{
	(void)info;
	return value;
}

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{
	return info & STORE;
}

/* What QEMU leaves in the rest of a small value is not the value's. */
static void set_value(int shift, uint64_t low, uint64_t high)
{
	memset(&value, 0xa5, sizeof(value));
	value.type = shift;
	if (shift == 4) {
		value.data.u128.low = low;
		value.data.u128.high = high;
	} else {
		memcpy(&value.data, &low, 1u << shift);
	}
}

int main(void)
{
	unsigned int cpu;
	uint64_t low, high;
	char what[16];
	int shift;

	exclusives_watch_load(NULL, NULL);
	while (scanf("%u %15s %d %lx %lx", &cpu, what, &shift, &low, &high) == 5) {
		current_cpu = &states[cpu % NR_CPUS];
		set_value(shift, low, high);
		if (!strcmp(what, "load")) {
			on_load(0, shift, 0, NULL);
			continue;
		}
		if (exclusives_is_write(&this_cpu()->exclusive, shift))
			return 1; /* the emulator's load is none */
		puts(exclusives_is_write(&this_cpu()->exclusive, shift | STORE) ? "write" : "failed");
	}
	return 0;
}
