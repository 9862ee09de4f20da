// SPDX-License-Identifier: GPL-2.0-or-later
#include "execution/stacks.h"

#include <stddef.h>
#include <string.h>

#include "arch/guest.h"
#include "execution/lock_calls.h"
#include "lib/hash.h"
#include "lib/xalloc.h"

#define STACKS_PER_CPU 1024
#define MAX_PROBES 8

/* A hash table: a stack's base is 0 where it is unused. */
static struct {
	struct stack *all;
	size_t nr; /* 0: none was looked for yet */
	uint64_t evicted;
} stacks;

#define for_each_stack(stack) for (struct stack *stack = stacks.all; stack < stacks.all + stacks.nr; stack++)

/* The bases of all of them, for who looks up many addresses. Not complete once a CPU is on a new stack. */
static struct {
	struct hash_table bases;
	bool complete;
} all_bases = { .bases = { .max_bytes = UINT64_MAX } }; /* there are at most STACKS_PER_CPU per CPU */

static const struct hash_type base_type = { sizeof(uint64_t), 1 };

static bool is_used(const struct stack *stack)
{
	for_each_cpu(cpu)
		if (cpu->contexts.stack == stack)
			return true;
	return false;
}

/* Where the stack is recorded, or is to be: if MAX_PROBES in a row are used, the place of one that no CPU is on. */
static struct stack *place_of(uint64_t base)
{
	uint64_t at = base / guest.stack_bytes * 0x9e3779b97f4a7c15 >> 32;
	struct stack *place = NULL;

	for (unsigned int probes = 0; probes < stacks.nr; probes++) {
		place = &stacks.all[(at + probes) % stacks.nr];
		if (place->base == base || !place->base || (probes + 1 >= MAX_PROBES && !is_used(place)))
			break;
	}
	return place;
}

static void init(struct stack *stack, uint64_t base)
{
	memset(stack, 0, offsetof(struct stack, calls));
	stack->base = base;
	chain_reset(&stack->calls);
}

struct stack *stacks_find(struct cpu *cpu, uint64_t base)
{
	struct stack *stack;

	if (!stacks.nr) {
		stacks.nr = (size_t)STACKS_PER_CPU * cpus.nr;
		stacks.all = xcalloc(stacks.nr, sizeof(*stacks.all));
	}
	stack = place_of(base);
	if (stack->base == base)
		return stack;
	/* An evicted task is learnt again when it next enters the kernel. */
	if (stack->base) {
		stacks.evicted++;
		lock_calls_forget_task(cpu, stack);
	}
	init(stack, base);
	all_bases.complete = false;
	return stack;
}

void stacks_reset(void)
{
	for_each_stack(stack)
		if (stack->base)
			init(stack, stack->base);
}

void stacks_end_traces(void)
{
	for_each_cpu(cpu)
		cpu->contexts.unknown.trace = NULL;
	for_each_stack(stack)
		if (stack->trace)
			stack->trace = NULL;
}

uint64_t stacks_evicted(void)
{
	return stacks.evicted;
}

static void find_all(void)
{
	hash_clear(&all_bases.bases, &base_type);
	for_each_stack(stack)
		if (stack->base)
			hash_add(&all_bases.bases, &base_type, &stack->base, 1);
	all_bases.complete = true;
}

bool stacks_contain(uint64_t address)
{
	uint64_t base = stack_base(address);

	if (!all_bases.complete)
		find_all();
	return hash_find(&all_bases.bases, &base_type, &base);
}
