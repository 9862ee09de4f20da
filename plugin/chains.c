// SPDX-License-Identifier: GPL-2.0-or-later
#include "chains.h"

#include <stdlib.h>

#include "hash.h"

#define FIRST_CHAINS 4096
#define MAX_CHAINS (1u << 22)
#define CHILDREN_BYTES (512ull << 20)

/* A chain: its parent's and one call more. */
struct chain {
	uint64_t pc;
	chain_id parent;
	chain_id last_child; /* most calls repeat the one before */
};

/* How a chain is found. */
struct child {
	uint64_t pc, parent; /* the key */
	chain_id id; /* 0: it has none yet */
};

static const struct hash_type child_type = { sizeof(struct child), 2 };

/* All chains by their numbers; and by parent and pc. */
static struct {
	struct chain *chains;
	uint32_t nr, room;
	struct hash_table children; /* of struct child */
	struct chains_lost lost;
} tree = { .children = { .max_bytes = CHILDREN_BYTES } };

static bool grow(void)
{
	uint32_t room = tree.room ? tree.room * 2 : FIRST_CHAINS;
	struct chain *chains = room <= MAX_CHAINS ? realloc(tree.chains, room * sizeof(*chains)) : NULL;

	if (!chains)
		return false;
	tree.chains = chains;
	tree.room = room;
	if (!tree.nr)
		tree.chains[tree.nr++] = (struct chain){ 0 };
	return true;
}

/* The chain that goes on from `parent` with a call at `pc`; the parent itself where there is no room for more. */
static chain_id child(chain_id parent, uint64_t pc)
{
	const uint64_t key[] = { pc, parent };
	bool has_room = tree.nr < tree.room || grow();
	struct child *found = NULL;
	chain_id last = tree.nr ? tree.chains[parent].last_child : 0;

	if (last && tree.chains[last].pc == pc)
		return last;
	if (has_room)
		found = hash_add(&tree.children, &child_type, key, 1);
	else
		found = hash_find(&tree.children, &child_type, key);
	if (!found) {
		tree.lost.chains++;
		return parent;
	}
	if (!found->id) {
		tree.chains[tree.nr] = (struct chain){ .pc = pc, .parent = parent };
		found->id = tree.nr++;
	}
	return tree.chains[parent].last_child = found->id;
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
		tree.lost.calls++;
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

	if (!last)
		return;
	end_allocations(stack, last->sp + 1);
	/* With no frame left, the last is not the allocator's. */
	if (stack->nr_frames == MAX_FRAMES || stack->nr_allocations == MAX_ALLOCATIONS) {
		tree.lost.allocations++;
		return;
	}
	stack->allocations[stack->nr_allocations++] = (struct allocation){ last->sp, stack->chain, asked, array };
}

bool chain_allocated(struct call_stack *stack, uint64_t sp, struct allocation *allocation)
{
	end_allocations(stack, sp);
	if (!stack->nr_allocations || stack->allocations[stack->nr_allocations - 1].sp != sp)
		return false;
	*allocation = stack->allocations[--stack->nr_allocations];
	return true;
}

void chain_enter(struct call_stack *stack, uint64_t pc, bool interrupt)
{
	push(stack, (struct frame){ .chain = stack->chain, .entry = true }, child(interrupt ? 0 : stack->chain, pc));
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

uint64_t chain_pc(chain_id chain)
{
	return tree.nr ? tree.chains[chain].pc : 0;
}

struct chains_lost chains_lost(void)
{
	return tree.lost;
}

int chains_write(FILE *out)
{
	fprintf(out, "chain,parent,pc\n");
	for (chain_id id = 1; id < tree.nr; id++)
		fprintf(out, "%u,%u,%#lx\n", id, tree.chains[id].parent, tree.chains[id].pc);
	return ferror(out) ? -1 : 0;
}
