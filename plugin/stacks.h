/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The kernel stacks that CPUs were on, by address. All CPUs have them together: a task takes its stack along to another
 * CPU, in the middle of a system call.
 */
#ifndef STACKS_H
#define STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cpu.h"

/* A hash table: a stack's base is 0 where it is unused. */
extern struct stacks {
	struct stack *all;
	size_t nr; /* 0: none was looked for yet */
	uint64_t evicted; /* forgotten for others; learnt again if their tasks enter the kernel again */
} stacks;

/* The record of the stack with that base, which the CPU is on: a new one evicts another where there is no room. */
struct stack *stacks_find(struct cpu *cpu, uint64_t base);

/* What is on the stacks, and whose they are, is not known any more. */
void stacks_reset(void);

/* Whether the address lies on a stack that some CPU was on. */
bool stacks_contain(uint64_t address);

#define for_each_stack(stack) for (struct stack *stack = stacks.all; stack < stacks.all + stacks.nr; stack++)

#endif
