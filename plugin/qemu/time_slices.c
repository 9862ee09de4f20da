// SPDX-License-Identifier: GPL-2.0-or-later
#include "qemu/time_slices.h"

#include "lib/attributes.h"
#include "qemu/leave.h"

struct time_slice time_slice;

static uint64_t random_state; /* 0: their lengths are not random */

static leave_fn *leave;

/* Marsaglia's xorshift. */
static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

NOINLINE void time_slices_begin(void)
{
	time_slice.cpu = current_cpu;
	time_slice.left = time_slice.instructions;
	if (random_state)
		time_slice.left += next_random() % time_slice.instructions - time_slice.instructions / 2;
}

NOINLINE void time_slices_end(void)
{
	time_slice.cpu = NULL;
	leave(current_cpu);
}

static void on_block(unsigned int nr UNUSED, void *nr_insns)
{
	time_slices_execute((uint64_t)nr_insns);
}

void time_slices_set(uint64_t instructions, uint64_t seed)
{
	if (!leave)
		leave = qemu_leave();
	time_slice = (struct time_slice){ .instructions = leave ? instructions : 0 };
	random_state = seed * 0x9e3779b97f4a7c15;
}

void time_slices_watch(struct qemu_plugin_tb *tb)
{
	if (time_slice.instructions)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS,
						     (void *)qemu_plugin_tb_n_insns(tb));
}
