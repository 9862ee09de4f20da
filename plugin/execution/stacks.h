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

#include "cpu/cpu.h"

/* The record of the stack with that base, which the CPU is on: a new one evicts another where there is no room. */
struct stack *stacks_find(struct cpu *cpu, uint64_t base);

/* What is on the stacks, and whose they are, is not known any more. */
void stacks_reset(void);

/* Before there is a new request: all traces end, also those of tasks that have not done all of their operations. */
void stacks_end_traces(void);

/* Whether the address lies on a stack that some CPU was on. */
bool stacks_contain(uint64_t address);

/* How many were forgotten for others. They are learnt again if their tasks enter the kernel again. */
uint64_t stacks_evicted(void);

#endif
