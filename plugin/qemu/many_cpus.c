// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "qemu/many_cpus.h"

#include <dlfcn.h>

#include "qemu/leave.h"
#include "qemu/qemu_api.h"

/* Flags with which code is translated for a CPU: include/exec/translation-block.h. With -icount there are more. */
#define OF_NO_CLUSTER 0xff000000u
#define PC_RELATIVE 0x00020000u

#define CPU_STATE_WORDS 2048 /* in which the flags are looked for: much less than QEMU keeps of a CPU */
#define ACCEL_OPS_WORDS 64

typedef void kick_fn(void *cpu);

/* QEMU exports its functions if it is built with modules, as distributions do. NULL: not found. */
static struct {
	uint32_t (*flags_of)(void *cpu); /* curr_cflags() */
	leave_fn *leave;
	kick_fn *kick_all;	 /* rr_kick_vcpu_thread() */
	void **running;		 /* current_cpu of the thread that runs all CPUs */
} qemu;

/*
 * The CPU that runs gives its thread to the next one. QEMU's own (accel/tcg/tcg-accel-ops-rr.c) tells all N CPUs to.
 * For each of them the thread then looks at all others: N^2 looks at a tick of one CPU's timer. What the thread itself
 * asks for, to flush code for instance, has to be done before the next CPU runs: for that it is as QEMU has it.
 */
static void kick(void *cpu)
{
	void *kicked;

	if (&current_cpu == qemu.running) {
		qemu.kick_all(cpu);
		return;
	}
	do {
		kicked = __atomic_load_n(qemu.running, __ATOMIC_SEQ_CST);
		if (kicked)
			qemu.leave(kicked);
	} while (kicked != __atomic_load_n(qemu.running, __ATOMIC_SEQ_CST));
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
