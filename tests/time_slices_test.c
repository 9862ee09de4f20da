// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives what ends a CPU's time slice, with a stand-in for QEMU. Standard input, a command a line:
 *
 *	set INSTRUCTIONS SEED	how long time slices are from now on
 *	block CPU N		it executes a block of so many instructions
 *
 * Standard output: how long time slices are; and as one ends, its CPU, and how many instructions were executed since
 * another one ended. Without HAS_CPU_EXIT, QEMU lacks the function that ends one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../plugin/qemu/time_slices.h"

#define NR_CPUS 4

static char states[NR_CPUS];
static unsigned long executed; /* since the last end, by any CPU */

struct qemu_plugin_tb {
	size_t nr_insns;
	qemu_plugin_vcpu_udata_cb_t on_run;
	void *data;
};

/* QEMU */

__thread void *current_cpu;

#ifdef HAS_CPU_EXIT
EXPORT void cpu_exit(void *cpu);

void cpu_exit(void *cpu)
{
	printf("%ld after %lu\n", (char *)cpu - states, executed);
	executed = 0;
}
#endif

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb)
{
	return tb->nr_insns;
}

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_vcpu_udata_cb_t callback,
					  enum qemu_plugin_cb_flags flags, void *userdata)
{
	(void)flags;
	tb->on_run = callback;
	tb->data = userdata;
}

/* The test */

static void execute(unsigned int cpu, size_t nr_insns)
{
	struct qemu_plugin_tb tb = { .nr_insns = nr_insns };

	current_cpu = &states[cpu % NR_CPUS];
	executed += nr_insns;
	time_slices_watch(&tb);
	if (tb.on_run)
		tb.on_run(0, tb.data);
}

int main(void)
{
	unsigned long instructions, seed, number;
	char line[256];

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "set %lu %lu", &instructions, &seed) == 2) {
			time_slices_set(instructions, seed);
			printf("set %lu\n", time_slice.instructions);
		} else if (sscanf(line, "block %lu %lu", &number, &instructions) == 2)
			execute(number, instructions);
		else
			return 1;
	}
	return 0;
}
