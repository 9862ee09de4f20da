// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "time_slices.h"

#include <dlfcn.h>

#include "guest.h"
#include "translation.h"

static struct {
	void (*end)(void *cpu); /* of QEMU: the CPU gives its thread to the next one before its next block. NULL: unknown */
	uint64_t instructions;
	uint64_t random; /* the state of the random numbers; 0: none are used */
	void *cpu;	 /* QEMU's, whose time slice it is; NULL: the next one's begins */
	int64_t left;	 /* of its instructions */
} slices;

/* Marsaglia's xorshift. */
static uint64_t next_random(void)
{
	slices.random ^= slices.random << 13;
	slices.random ^= slices.random >> 7;
	slices.random ^= slices.random << 17;
	return slices.random;
}

static NOINLINE void begin(void)
{
	slices.cpu = current_cpu;
	slices.left = slices.instructions;
	if (slices.random)
		slices.left += next_random() % slices.instructions - slices.instructions / 2;
}

static void on_block(unsigned int nr UNUSED, void *nr_insns)
{
	if (slices.cpu != current_cpu)
		begin();
	slices.left -= (int64_t)nr_insns;
	if (slices.left > 0)
		return;
	slices.cpu = NULL;
	slices.end(current_cpu);
}

void time_slices_set(uint64_t instructions, uint64_t seed)
{
	/* QEMU exports it if it is built with modules, as distributions do. */
	if (!slices.end)
		slices.end = (void (*)(void *))dlsym(RTLD_DEFAULT, "cpu_exit");
	slices.instructions = slices.end ? instructions : 0;
	slices.random = seed * 0x9e3779b97f4a7c15;
	slices.cpu = NULL;
	translation_again();
}

uint64_t time_slices_instructions(void)
{
	return slices.instructions;
}

void time_slices_watch(struct qemu_plugin_tb *tb)
{
	if (slices.instructions)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS,
						     (void *)qemu_plugin_tb_n_insns(tb));
}
