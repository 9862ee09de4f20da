// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Starts the CPUs of a stand-in for QEMU, and kicks one of them.
 * Arguments: the flags with which code is translated, for each CPU.
 *
 * Standard output: each CPU's flags afterwards, and how many of its words are not as before; then the CPUs that leave
 * if another thread kicks them, and if their own does; whether one leaves for most kicks of another thread that come at
 * once, and whether one leaves after the last of them. Without HAS_QEMU, QEMU's functions are not there.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../plugin/cpu/cpu.h"
#include "../plugin/many_cpus/many_cpus.h"
#include "../plugin/qemu/qemu_api.h"

#define NR_CPUS 4
#define NR_KICKS 100000
#define MOST_LOOKS 60000
#define WORDS 4096
#define FLAGS 700 /* where they are; some words before and after are the same */

static uint32_t states[NR_CPUS][WORDS];

__thread void *current_cpu;

void *qemu_get_cpu(int index)
{
	return states[index];
}

#ifdef HAS_QEMU
typedef void kick_fn(void *cpu);
EXPORT uint32_t curr_cflags(const uint32_t *cpu);
EXPORT void cpu_exit(void *cpu);
EXPORT kick_fn rr_kick_vcpu_thread;
EXPORT kick_fn **cpus_get_accel(void);

uint32_t curr_cflags(const uint32_t *cpu)
{
	return cpu[FLAGS];
}

static int nr_left;
static bool is_quiet;

static void leave(void *cpu)
{
	__atomic_add_fetch(&nr_left, 1, __ATOMIC_SEQ_CST);
	if (is_quiet)
		return;
	printf("CPU %td leaves\n", ((uint32_t *)cpu - states[0]) / WORDS);
}

#ifdef CPU_EXIT_KICKS /* as in QEMU 10.2 */
EXPORT void tcg_kick_vcpu_thread(void *cpu);

void tcg_kick_vcpu_thread(void *cpu)
{
	leave(cpu);
}

void cpu_exit(void *cpu)
{
	cpus_get_accel()[16](cpu);
}
#else
void cpu_exit(void *cpu)
{
	leave(cpu);
}
#endif

void rr_kick_vcpu_thread(void *cpu)
{
	(void)cpu;
	for (int i = 0; i < NR_CPUS; i++)
		leave(states[i]);
}

kick_fn **cpus_get_accel(void)
{
	static kick_fn *ops[64];

	if (!ops[16])
		ops[16] = rr_kick_vcpu_thread;
	return ops;
}

static void *kick(void *unused)
{
	cpus_get_accel()[16](states[0]);
	return unused;
}

static void *kick_often(void *unused)
{
	int before, looks = 0;

	for (int i = 1; i < NR_KICKS; i++)
		kick(NULL);
	printf("%s\n", nr_left < NR_KICKS / 2 ? "few leave" : "many leave");
	before = __atomic_load_n(&nr_left, __ATOMIC_SEQ_CST);
	kick(NULL);
	while (__atomic_load_n(&nr_left, __ATOMIC_SEQ_CST) == before && looks++ < MOST_LOOKS)
		usleep(1000);
	printf("%s\n", looks < MOST_LOOKS ? "one leaves" : "none leaves");
	return unused;
}

static void kick_from(void *(*thread)(void *))
{
	pthread_t other;

	pthread_create(&other, NULL, thread, NULL);
	pthread_join(other, NULL);
}
#endif

static int changed(const uint32_t *state, uint32_t flags)
{
	int words = 0;

	for (int i = 0; i < WORDS; i++)
		words += state[i] != (i % 100 ? 0 : flags);
	return words;
}

int main(int argc, char **argv)
{
	cpus_init(NR_CPUS);
	for (int cpu = 0; cpu < NR_CPUS && cpu + 1 < argc; cpu++) {
		uint32_t flags = strtoul(argv[cpu + 1], NULL, 16);

		for (int i = 0; i < WORDS; i += 100)
			states[cpu][i] = flags;
		current_cpu = states[cpu];
		many_cpus_init();
		printf("%x %d\n", states[cpu][FLAGS], changed(states[cpu], flags));
	}
#ifdef HAS_QEMU
	current_cpu = states[2];
	kick_from(kick);
	printf("own\n");
	kick(NULL);
	printf("own, of the last CPU\n");
	current_cpu = states[NR_CPUS - 1];
	kick(NULL);
	is_quiet = true;
	nr_left = 0;
	kick_from(kick_often);
#endif
	return 0;
}
