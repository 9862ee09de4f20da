/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel stacks that CPUs were on, by address. */
#ifndef STACKS_H
#define STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "cpu.h"

/* The CPU's record of the stack with that base: a new one evicts another where there is no room. */
struct stack *stacks_find(struct cpu *cpu, uint64_t base);

/* Whether the address lies on a stack that some CPU was on. */
bool stacks_contain(uint64_t address);

#endif
