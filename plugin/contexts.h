/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * On whose behalf each CPU runs, and by which calls it got there: follows entries into the kernel, calls, returns and
 * switches of tasks, and keeps struct cpu and its stacks up to date.
 */
#ifndef CONTEXTS_H
#define CONTEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch.h"
#include "qemu_api.h"

/* Recording begins: the agent's stack is not known any more. */
void contexts_arm(void);

/* What this CPU's user code does next is a system call, and the agent's. */
void contexts_expect_agent(void);

/* This block is user code. */
void contexts_watch_user(struct qemu_plugin_tb *tb);

/* This instruction is where the kernel is entered, or leaves one context for another. */
void contexts_watch_entry(struct qemu_plugin_insn *insn, enum entry_kind kind);

/* This instruction may be a call, a return, or the end of an interrupt. */
void contexts_watch(struct qemu_plugin_insn *insn, enum insn_kind kind, const uint8_t *bytes);

/* All translated code was thrown away. */
void contexts_free(void);

/* Whether an address lies on a stack that some CPU was on. */
bool contexts_is_stack(uint64_t address);

/* What could not be followed, by all CPUs. */
struct contexts_lost {
	uint64_t stacks;  /* that were forgotten for others, and learnt again if their tasks entered the kernel again */
	uint64_t entries; /* interrupts and exceptions deeper than MAX_NESTING */
};

struct contexts_lost contexts_lost(void);

#endif
