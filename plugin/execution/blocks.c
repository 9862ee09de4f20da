// SPDX-License-Identifier: GPL-2.0-or-later
#include "execution/blocks.h"

#include <stdlib.h>

#include "cpu/cpu.h"
#include "execution/lock_calls.h"
#include "execution/program.h"
#include "lib/attributes.h"
#include "lib/xalloc.h"
#include "protocol/request.h"
#include "trace/trace_events.h"

/* How many instructions of a block have that number in arch->costly_names. Most blocks have none. */
struct costly {
	unsigned int number;
	uint32_t nr;
	struct costly *next;
};

/*
 * Instructions that are executed together. Executions since the block's CPU, context or chain last changed are not in the
 * CPU's table yet. Blocks live until code is thrown away.
 */
struct block {
	struct executed executed; /* of one execution */
	struct cpu *cpu;
	uint32_t executions;
	struct costly *costly;
	struct block *next;
};

static struct block *blocks;

static void flush(struct block *block)
{
	uint64_t others = (uint64_t)block->executed.instructions * block->executions;

	if (!block->executions)
		return;
	for (const struct costly *costly = block->costly; costly; costly = costly->next) {
		uint64_t executed = (uint64_t)costly->nr * block->executions;

		instructions_add(&block->cpu->instructions, &block->executed, costly->number, executed);
		others -= executed;
	}
	if (others)
		instructions_add(&block->cpu->instructions, &block->executed, 0, others);
	block->executions = 0;
}

static void count(struct cpu *cpu, struct block *block)
{
	const struct contexts_of_cpu *contexts = &cpu->contexts;

	if (!is_recording(cpu))
		return;
	if (block->cpu != cpu || block->executed.chain != contexts->stack->calls.chain ||
	    block->executed.context != contexts->context) {
		flush(block);
		block->cpu = cpu;
		block->executed.chain = contexts->stack->calls.chain;
		block->executed.context = contexts->context;
	}
	block->executions++;
}

/* Where only their sum is wanted. */
static void count_context(struct cpu *cpu, const struct block *block)
{
	if (is_recording(cpu))
		cpu->instructions.instructions[cpu->contexts.context] += block->executed.instructions;
}

/* One callback for all uses: most of a callback's cost is the call. */
static void on_block(unsigned int nr UNUSED, void *userdata)
{
	struct block *block = userdata;
	struct cpu *cpu = this_cpu();

	if (request.what & RECORD_INSTRUCTIONS)
		count(cpu, block);
	else if (request.what & RECORD_PROGRAM)
		count_context(cpu, block);
	if (request.what & RECORD_PROGRAM)
		program_execute(cpu, block->executed.instructions);
	if (request.what & RECORD_LOCKS)
		lock_calls_execute(cpu, block->executed.instructions);
	if (cpu->contexts.stack->trace)
		trace_events_execute(cpu, block->executed.instructions);
}

struct block *blocks_watch(struct qemu_plugin_insn *first, uint64_t function, size_t nr_insns)
{
	struct block *block = xcalloc(1, sizeof(*block));

	block->executed.function = function;
	block->executed.instructions = nr_insns;
	block->next = blocks;
	blocks = block;
	qemu_plugin_register_vcpu_insn_exec_cb(first, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
	return block;
}

void blocks_add_costly(struct block *block, unsigned int number)
{
	struct costly *costly = block->costly;

	while (costly && costly->number != number)
		costly = costly->next;
	if (!costly) {
		costly = xcalloc(1, sizeof(*costly));
		costly->number = number;
		costly->next = block->costly;
		block->costly = costly;
	}
	costly->nr++;
}

void blocks_flush(void)
{
	for (struct block *block = blocks; block; block = block->next)
		flush(block);
}

static void free_costly(struct costly *costly)
{
	while (costly) {
		struct costly *next = costly->next;

		free(costly);
		costly = next;
	}
}

void blocks_free(void)
{
	blocks_flush();
	while (blocks) {
		struct block *next = blocks->next;

		free_costly(blocks->costly);
		free(blocks);
		blocks = next;
	}
}
