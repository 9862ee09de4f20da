// SPDX-License-Identifier: GPL-2.0-or-later
#include "blocks.h"

#include <stdlib.h>

#include "cpu.h"
#include "guest.h"
#include "lock_calls.h"
#include "operations.h"
#include "trace_events.h"
#include "xalloc.h"

/*
 * Instructions that are executed together, and their function; and how often they were since their CPU, context or
 * chain last changed, which the CPU's table does not know yet. They live until code is thrown away.
 */
struct block {
	struct work work; /* of one execution */
	struct cpu *cpu;
	uint32_t executions;
	struct block *next;
};

static struct block *blocks;

static void flush(struct block *block)
{
	if (block->executions)
		work_add(&block->cpu->work, &block->work, block->executions);
	block->executions = 0;
}

static void count(struct cpu *cpu, struct block *block)
{
	if (!is_recording(cpu))
		return;
	if (block->cpu != cpu || block->work.chain != cpu->stack->calls.chain || block->work.context != cpu->context) {
		flush(block);
		block->cpu = cpu;
		block->work.chain = cpu->stack->calls.chain;
		block->work.context = cpu->context;
	}
	block->executions++;
}

/* One callback for all that is to be told of it: most of what a callback costs is to be called. */
static void on_block(unsigned int nr UNUSED, void *userdata)
{
	struct block *block = userdata;
	struct cpu *cpu = this_cpu();

	if (arm.what & RECORD_WORK)
		count(cpu, block);
	if (arm.what & RECORD_LOCKS)
		lock_calls_execute(cpu, block->work.instructions);
	if (cpu->stack->trace)
		trace_events_execute(cpu, block->work.instructions);
}

void blocks_watch(struct qemu_plugin_insn *first, uint64_t function, size_t nr_insns)
{
	struct block *block = xcalloc(1, sizeof(*block));

	block->work.function = function;
	block->work.instructions = nr_insns;
	block->next = blocks;
	blocks = block;
	qemu_plugin_register_vcpu_insn_exec_cb(first, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
}

void blocks_flush(void)
{
	for (struct block *block = blocks; block; block = block->next)
		flush(block);
}

void blocks_free(void)
{
	blocks_flush();
	while (blocks) {
		struct block *next = blocks->next;

		free(blocks);
		blocks = next;
	}
}
