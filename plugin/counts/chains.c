// SPDX-License-Identifier: GPL-2.0-or-later
#include "counts/chains.h"

#include <stdlib.h>

#include "lib/attributes.h"
#include "lib/hash.h"

#define FIRST_CHAINS 4096
#define MAX_CHAINS (1u << 22)
#define CHILDREN_BYTES (512ull << 20)
#define NR_RECENT 4096 /* a power of two */

/* A chain: its parent's and one call more. */
struct chain {
	uint64_t pc;
	chain_id parent;
};

/* How a chain is found. */
struct child {
	uint64_t pc, parent; /* the key */
	chain_id id; /* 0: it has none yet */
};

static const struct hash_type child_type = { sizeof(struct child), 2 };

/* The same of a call that was made lately. */
struct recent_child {
	uint64_t pc; /* 0: none */
	chain_id parent, id;
};

/* All chains, by number, and by parent and pc. `recent` has one place per hash: almost all calls were made lately. */
static struct {
	struct chain *chains;
	uint32_t nr, room;
	struct hash_table children; /* of struct child */
	struct recent_child recent[NR_RECENT];
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

static NOINLINE chain_id find_child(const uint64_t key[2], uint64_t hash, struct recent_child *recent)
{
	chain_id parent = key[1];
	bool has_room = tree.nr < tree.room || grow();
	struct child *found = NULL;

	if (has_room)
		found = hash_add_hashed(&tree.children, &child_type, key, hash, 1);
	else
		found = hash_find(&tree.children, &child_type, key);
	if (!found) {
		tree.lost.chains++;
		return parent;
	}
	if (!found->id) {
		tree.chains[tree.nr] = (struct chain){ .pc = key[0], .parent = parent };
		found->id = tree.nr++;
	}
	*recent = (struct recent_child){ key[0], parent, found->id };
	return found->id;
}

/* The chain of `parent` and a call at `pc`; the parent itself if there is no room for a new chain. */
static inline chain_id child(chain_id parent, uint64_t pc)
{
	const uint64_t key[] = { pc, parent };
	uint64_t key_hash = hash(key, child_type.key_words);
	struct recent_child *recent = &tree.recent[key_hash % NR_RECENT];

	return recent->pc == pc && recent->parent == parent ? recent->id : find_child(key, key_hash, recent);
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

static inline chain_id called(chain_id from, struct call_site *site)
{
	if (!site->to || site->from != from) {
		site->from = from;
		site->to = child(from, site->pc);
	}
	return site->to;
}

void chain_call(struct call_stack *stack, struct call_site *site, uint64_t sp)
{
	struct frame *last;

	/* What lies below is gone, however it ended. */
	while ((last = top(stack)) && last->sp && last->sp <= sp)
		pop(stack);
	if (last && !last->sp)
		last->sp = sp + 1; /* the entry's frame lies above its first call's */
	push(stack, (struct frame){ .sp = sp, .chain = stack->chain }, called(stack->chain, site));
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

void chain_allocates(struct call_stack *stack, uint64_t request, uint64_t array)
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
	stack->allocations[stack->nr_allocations++] = (struct allocation){ last->sp, stack->chain, request, array };
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
