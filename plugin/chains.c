// SPDX-License-Identifier: GPL-2.0-or-later
#include "chains.h"

#include <stdlib.h>

#include "hash.h"

#define FIRST_CAPACITY 4096
#define MAX_CHAINS (1u << 22)

/* All chains, each its parent's and one call more. */
static struct chain {
	uint64_t pc;
	chain_id parent;
	chain_id last_child; /* most calls repeat the one before */
} *chains;
static uint32_t nr_chains, room;

/* From parent and pc to the chain: an open hash table, at most half full. */
static chain_id *table;
static uint64_t capacity;

static chain_id *find(chain_id parent, uint64_t pc)
{
	uint64_t at = hash(pc, parent) & (capacity - 1);

	while (table[at] && (chains[table[at]].pc != pc || chains[table[at]].parent != parent))
		at = (at + 1) & (capacity - 1);
	return &table[at];
}

static bool grow(void)
{
	struct chain *more = realloc(chains, (room ? room * 2 : FIRST_CAPACITY) * sizeof(*chains));
	chain_id *bigger;

	if (!more)
		return false;
	chains = more;
	if (!room)
		chains[nr_chains++] = (struct chain){ 0 };
	room = room ? room * 2 : FIRST_CAPACITY;
	bigger = calloc(room * 2, sizeof(*bigger));
	if (!bigger)
		return false;
	free(table);
	table = bigger;
	capacity = room * 2;
	for (chain_id id = 1; id < nr_chains; id++)
		*find(chains[id].parent, chains[id].pc) = id;
	return true;
}

/* The chain that goes on from `parent` with a call at `pc`; the parent itself where there is no room for more. */
static chain_id child(chain_id parent, uint64_t pc)
{
	chain_id *place, last;

	if (nr_chains >= room && (room >= MAX_CHAINS || !grow()))
		return parent;
	last = chains[parent].last_child;
	if (last && chains[last].pc == pc)
		return last;
	place = find(parent, pc);
	if (!*place) {
		chains[nr_chains] = (struct chain){ .pc = pc, .parent = parent };
		*place = nr_chains++;
	}
	chains[parent].last_child = *place;
	return *place;
}

static struct frame *top(struct call_stack *stack)
{
	return stack->nr_frames ? &stack->frames[stack->nr_frames - 1] : NULL;
}

static void pop(struct call_stack *stack)
{
	stack->chain = stack->frames[--stack->nr_frames].chain;
}

static void push(struct call_stack *stack, struct frame frame, chain_id chain)
{
	if (stack->nr_frames == MAX_FRAMES) {
		stack->missed++;
		return;
	}
	stack->frames[stack->nr_frames++] = frame;
	stack->chain = chain;
}

void chain_call(struct call_stack *stack, uint64_t pc, uint64_t sp)
{
	struct frame *last;

	/* What lies below is gone, however it ended. */
	while ((last = top(stack)) && last->sp && last->sp <= sp)
		pop(stack);
	if (last && !last->sp)
		last->sp = sp + 1; /* the entry's frame lies above its first call's */
	push(stack, (struct frame){ .sp = sp, .chain = stack->chain }, child(stack->chain, pc));
}

void chain_return(struct call_stack *stack, uint64_t sp)
{
	struct frame *last;

	while ((last = top(stack)) && !last->entry && last->sp <= sp)
		pop(stack);
}

/* The allocations whose frames lie below have ended, however they did. */
static void end_allocations(struct call_stack *stack, uint64_t sp)
{
	while (stack->nr_allocations && stack->allocations[stack->nr_allocations - 1].sp < sp)
		stack->nr_allocations--;
}

void chain_allocates(struct call_stack *stack, uint64_t asked, uint64_t array)
{
	const struct frame *last = top(stack);

	/* With no frame left, the last is not the allocator's. */
	if (!last || stack->nr_frames == MAX_FRAMES)
		return;
	end_allocations(stack, last->sp + 1);
	if (stack->nr_allocations < MAX_ALLOCATIONS)
		stack->allocations[stack->nr_allocations++] =
			(struct allocation){ last->sp, stack->chain, asked, array };
}

bool chain_allocated(struct call_stack *stack, uint64_t sp, struct allocation *allocation)
{
	end_allocations(stack, sp);
	if (!stack->nr_allocations || stack->allocations[stack->nr_allocations - 1].sp != sp)
		return false;
	*allocation = stack->allocations[--stack->nr_allocations];
	return true;
}

void chain_enter(struct call_stack *stack, uint64_t pc, bool apart)
{
	push(stack, (struct frame){ .chain = stack->chain, .entry = true }, child(apart ? 0 : stack->chain, pc));
}

void chain_leave(struct call_stack *stack)
{
	struct frame *last;
	bool entry = false;

	while (!entry && (last = top(stack))) {
		entry = last->entry;
		pop(stack);
	}
}

void chain_continue(struct call_stack *stack, chain_id chain)
{
	stack->nr_frames = stack->nr_allocations = 0;
	stack->chain = chain;
}

void chain_reset(struct call_stack *stack)
{
	chain_continue(stack, 0);
}

int chains_write(FILE *out)
{
	fprintf(out, "chain,parent,pc\n");
	for (chain_id id = 1; id < nr_chains; id++)
		fprintf(out, "%u,%u,%#lx\n", id, chains[id].parent, chains[id].pc);
	return ferror(out) ? -1 : 0;
}
