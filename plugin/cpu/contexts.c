// SPDX-License-Identifier: GPL-2.0-or-later
#include "cpu/contexts.h"

#include <string.h>

#include "arch/guest.h"

static uint64_t agent_stack;

void contexts_set_agent_stack(uint64_t base)
{
	agent_stack = base;
}

static bool is_agent(const struct stack *stack)
{
	return agent_stack && stack->base == agent_stack;
}

static enum context context_of(const struct stack *stack)
{
	if (stack->interrupts || stack->preempted || stack->deferred)
		return CONTEXT_INTERRUPT;
	if (is_agent(stack))
		return CONTEXT_HARNESS;
	if (stack->user)
		return CONTEXT_OPERATION;
	/* A stack that belongs to no known task is an interrupt's. */
	return stack->task ? CONTEXT_KTHREAD : CONTEXT_INTERRUPT;
}

void contexts_update(struct contexts_of_cpu *contexts)
{
	contexts->context = context_of(contexts->stack);
}

void contexts_reset(struct contexts_of_cpu *contexts)
{
	contexts->stack = memset(&contexts->unknown, 0, sizeof(contexts->unknown));
	contexts->in_user = contexts->entering = contexts->entering_agent = false;
	contexts->emergency_stack = contexts->switching = false;
	contexts_update(contexts);
}

static void empty(struct stack *stack)
{
	stack->interrupts = stack->nesting = stack->lost_nesting = 0;
	stack->preempted = false;
	stack->deferred = stack->excluded_until_sp = 0;
	chain_reset(&stack->calls);
	fill_ended(&stack->fills[0]);
}

void contexts_begin_task(struct contexts_of_cpu *contexts)
{
	empty(contexts->stack);
	contexts->stack->user = false;
	contexts->stack->task = true;
	contexts_update(contexts);
}

void contexts_enter_user(struct contexts_of_cpu *contexts)
{
	const struct stack *stack = contexts->stack;

	contexts->in_user = true;
	empty(contexts->stack);
	contexts->context = is_agent(stack) ? CONTEXT_HARNESS : CONTEXT_OPERATION;
}

void contexts_enter(struct contexts_of_cpu *contexts, uint64_t pc, uint64_t sp, bool interrupt)
{
	struct stack *stack = contexts->stack;

	if (stack->nesting == MAX_NESTING) {
		contexts->lost_entries++;
		stack->lost_nesting++;
	} else {
		chain_enter(&stack->calls, pc, interrupt);
		stack->interrupts = stack->interrupts << 1 | interrupt;
		stack->entry_sp[stack->nesting] = sp;
		fill_ended(&stack->fills[++stack->nesting]);
	}
	contexts_update(contexts);
}

/*
 * Not every return ends an entry. In a handler, sync_core() returns to itself. An NMI, which is not followed, returns on
 * a stack of its own. An entry from user mode returns from where it entered, or from the top of the task's stack.
 */
bool contexts_ends_entry(const struct stack *stack, uint64_t sp)
{
	uint64_t moves = guest.arch->entry_moves, top = stack->base + guest.stack_bytes;

	if (!stack->nesting)
		return false;
	return sp - stack->entry_sp[stack->nesting - 1] + moves <= 2 * moves || top - sp <= moves;
}

void contexts_leave(struct contexts_of_cpu *contexts)
{
	struct stack *stack = contexts->stack;

	chain_leave(&stack->calls);
	stack->nesting--;
	stack->interrupts >>= 1;
	contexts_update(contexts);
}

void contexts_move_entry(struct stack *from, struct stack *to)
{
	to->user = true;
	to->interrupts = from->interrupts;
	to->nesting = from->nesting;
	memcpy(to->entry_sp, from->entry_sp, sizeof(to->entry_sp));
	to->lost_nesting = from->lost_nesting;
	to->preempted = false;
	to->deferred = 0;
	to->trace = from->trace;
	to->excluded_until_sp = 0;
	from->trace = NULL;
	to->calls = from->calls;
	fill_ended(&to->fills[to->nesting]);
	from->interrupts = from->nesting = from->lost_nesting = 0;
	chain_reset(&from->calls);
}
