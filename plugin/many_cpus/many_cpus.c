// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "many_cpus/many_cpus.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>

#include "cpu/cpu.h"
#include "qemu/leave.h"
#include "qemu/qemu_api.h"

/* Flags with which code is translated for a CPU: include/exec/translation-block.h. With -icount there are more. */
#define OF_NO_CLUSTER 0xff000000u
#define PC_RELATIVE 0x00020000u

#define CPU_STATE_WORDS 2048 /* in which the flags are looked for: much less than QEMU keeps of a CPU */
#define ACCEL_OPS_WORDS 64
#define LEAST_SLICE_NS 10000000
#define SLICE_NS_PER_CPU 40000 /* a CPU's tick takes somewhat less */

typedef void kick_fn(void *cpu);

/* QEMU exports its functions if it is built with modules, as distributions do. NULL: not found. */
static struct {
	uint32_t (*flags_of)(void *cpu); /* curr_cflags() */
	leave_fn *leave;
	kick_fn *kick_all;	 /* rr_kick_vcpu_thread() */
	void **running;		 /* current_cpu of the thread that runs all CPUs */
} qemu;

static struct {
	int number; /* of kicks by other threads since a time slice ended; 0: it has lasted long enough */
	sem_t first;
} kicks;

/*
 * The thread looks for what it has to do for CPUs when one of them leaves before it has run. What it asks for itself, to
 * flush code for instance, has to be done before the next CPU runs: so the one that runs now leaves, and the next one.
 */
static void kick_from_within(void *cpu)
{
	void *next = current_cpu ? next_cpu_state() : NULL;

	if (!next) {
		qemu.kick_all(cpu);
		return;
	}
	qemu.leave(current_cpu);
	qemu.leave(next);
}

static void leave_running(void)
{
	void *kicked;

	do {
		kicked = __atomic_load_n(qemu.running, __ATOMIC_SEQ_CST);
		if (kicked)
			qemu.leave(kicked);
	} while (kicked != __atomic_load_n(qemu.running, __ATOMIC_SEQ_CST));
}

/* As long as the ticks of all CPUs take, so that a CPU which has work gets half of the time. QEMU's own has 100 ms. */
static struct timespec least_slice(void)
{
	long ns = (long)cpus.nr * SLICE_NS_PER_CPU;

	return (struct timespec){ .tv_nsec = ns < LEAST_SLICE_NS ? LEAST_SLICE_NS : ns };
}

/* Wait for the end of a time slice. Returns whether the next one begins, as there were other kicks than the first. */
static bool wait_for_slice(void)
{
	const struct timespec slice = least_slice();
	int first = 1;

	nanosleep(&slice, NULL);
	if (__atomic_compare_exchange_n(&kicks.number, &first, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return false;
	__atomic_store_n(&kicks.number, 1, __ATOMIC_SEQ_CST);
	return true;
}

static void *end_slices(void *unused)
{
	for (;;) {
		while (sem_wait(&kicks.first))
			;
		while (wait_for_slice())
			leave_running();
	}
	return unused;
}

/* It takes no signals, which are for QEMU's own threads. */
static bool start_end_slices(void)
{
	sigset_t all, before;
	pthread_t thread;
	int failed;

	sigfillset(&all);
	sem_init(&kicks.first, 0, 0);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, NULL, end_slices, NULL);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return !failed;
}

/*
 * The CPU that runs gives its thread to the next one. QEMU's own (accel/tcg/tcg-accel-ops-rr.c) tells all N CPUs to.
 * For each of them the thread then looks at all others: N^2 looks at a tick of one CPU's timer, and as many where it asks
 * for something on each CPU.
 *
 * Of 1024 CPUs that have ticks, one has its tick every few microseconds. If each ended the time slice of the CPU that runs,
 * no CPU would get further than its own tick, and what all CPUs have to do together would never be done.
 */
static void kick(void *cpu)
{
	if (&current_cpu == qemu.running) {
		kick_from_within(cpu);
	} else if (!__atomic_fetch_add(&kicks.number, 1, __ATOMIC_SEQ_CST)) {
		leave_running();
		sem_post(&kicks.first);
	}
}

static void kick_one_cpu(void)
{
	kick_fn **(*accel_ops)(void) = (kick_fn **(*)(void))dlsym(RTLD_DEFAULT, "cpus_get_accel");
	kick_fn **ops = accel_ops ? accel_ops() : NULL;

	qemu.kick_all = (kick_fn *)dlsym(RTLD_DEFAULT, "rr_kick_vcpu_thread");
	qemu.leave = qemu_leave();
	qemu.running = &current_cpu;
	for (size_t i = 0; ops && qemu.kick_all && qemu.leave && i < ACCEL_OPS_WORDS; i++) {
		if (ops[i] == qemu.kick_all) {
			if (start_end_slices())
				ops[i] = kick;
			return;
		}
	}
}

/*
 * Code is translated for the address that it runs at. Code for any address is forgotten at more cost: whenever QEMU
 * throws some away, it clears a table of 64 KiB of each CPU (tb_jmp_cache_inval_tb() in accel/tcg/tb-maint.c). The
 * flags are where QEMU's own function sees it if they are changed.
 */
static void translate_for_address(uint32_t flags)
{
	uint32_t *words = current_cpu, wanted = flags & ~PC_RELATIVE;

	for (size_t i = 0; flags != wanted && i < CPU_STATE_WORDS; i++) {
		if (words[i] != flags)
			continue;
		words[i] = wanted;
		if (qemu.flags_of(current_cpu) == wanted)
			return;
		words[i] = flags;
	}
}

void many_cpus_init(void)
{
	uint32_t flags;

	qemu.flags_of = (uint32_t (*)(void *))dlsym(RTLD_DEFAULT, "curr_cflags");
	if (!qemu.flags_of || !current_cpu)
		return;
	flags = qemu.flags_of(current_cpu);
	if ((flags & ~PC_RELATIVE) != OF_NO_CLUSTER)
		return;
	if (!qemu.running)
		kick_one_cpu();
	translate_for_address(flags);
}
