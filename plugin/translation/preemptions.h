/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls by which a task is preempted: it gives up its CPU, but does not wait. What the scheduler does in them is caused by
 * an interrupt, and is no part of the operation.
 */
#ifndef PREEMPTIONS_H
#define PREEMPTIONS_H

#include <stdint.h>

#include "arch/arch.h"

/* A symbol of the kernel's. They come in the order of their addresses. */
void preemptions_note(const char *symbol, uint64_t address);

/* After the last: add the places, as ENTRY_PREEMPTED and ENTRY_RESUMED. */
void preemptions_add(void (*add_entry)(uint64_t address, enum entry_kind kind));

#endif
