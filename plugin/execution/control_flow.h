/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sees entries into the kernel, calls, returns and switches of tasks. Keeps track of the stack and the context of each
 * CPU (contexts.h) and of the calls that led there (chains.h).
 */
#ifndef CONTROL_FLOW_H
#define CONTROL_FLOW_H

#include <stdint.h>

#include "arch/arch.h"
#include "qemu/qemu_api.h"

/* There is a new request: the agent is not known any more. */
void control_flow_arm(void);

/* A part of a program's recording begins: code was not watched before. */
void control_flow_begin(void);

/* The next kernel entry on this CPU is the agent's. */
void control_flow_expect_agent(void);

/* This block is user code, and executes so many instructions. */
void control_flow_watch_user(struct qemu_plugin_tb *tb, size_t nr_insns);

/* At this instruction the kernel is entered, or leaves one context for another. */
void control_flow_watch_entry(struct qemu_plugin_insn *insn, enum entry_kind kind);

/* This instruction may be a call, a return, or the end of an interrupt. */
void control_flow_watch(struct qemu_plugin_insn *insn, enum insn_kind kind, const uint8_t *bytes);

/* All translated code was thrown away. */
void control_flow_free(void);

#endif
