// SPDX-License-Identifier: GPL-2.0-or-later
#include "stacks.h"

#include <stddef.h>
#include <string.h>

#include "guest.h"
#include "hash.h"
#include "lock_calls.h"

#define MAX_PROBES 8

/* The bases of all CPUs' stacks, for who looks up many addresses. Not complete once a CPU is on a new stack. */
static struct {
	struct hash_table bases;
	bool complete;
} all_stacks = { .bases = { .max_bytes = UINT64_MAX } }; /* there are at most NR_STACKS per CPU */

static const struct hash_type base_type = { sizeof(uint64_t), 1 };

/* Where the stack is recorded, or is to be: another stack's place if MAX_PROBES in a row are used. */
static struct stack *place_of(struct cpu *cpu, uint64_t base)
{
	uint64_t at = base / guest.stack_bytes * 0x9e3779b97f4a7c15 >> 32;
	struct stack *place = NULL;

	for (unsigned int probes = 0; probes < MAX_PROBES; probes++) {
		place = &cpu->contexts.stacks[(at + probes) % NR_STACKS];
		if (place->base == base || !place->base)
			break;
	}
	return place;
}

struct stack *stacks_find(struct cpu *cpu, uint64_t base)
{
	struct stack *stack = place_of(cpu, base);

	if (stack->base == base)
		return stack;
	/* An evicted task is learnt again when it next enters the kernel. */
	if (stack->base) {
		cpu->contexts.evicted_stacks++;
		lock_calls_forget_task(cpu, stack);
	}
	memset(stack, 0, offsetof(struct stack, calls));
	stack->base = base;
	all_stacks.complete = false;
	chain_reset(&stack->calls);
	return stack;
}

static void find_all(void)
{
	hash_clear(&all_stacks.bases, &base_type);
	for_each_cpu(cpu)
		for (unsigned int i = 0; i < NR_STACKS; i++)
			if (cpu->contexts.stacks[i].base)
				hash_add(&all_stacks.bases, &base_type, &cpu->contexts.stacks[i].base, 1);
	all_stacks.complete = true;
}

bool stacks_contain(uint64_t address)
{
	uint64_t base = stack_base(address);

	if (!all_stacks.complete)
		find_all();
	return hash_find(&all_stacks.bases, &base_type, &base);
}
