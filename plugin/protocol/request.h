/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the agent asked for with its last MARK_ARM: which tasks to record, for how long, and what of them. */
#ifndef REQUEST_H
#define REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "../guest/protocol/recorder.h"

extern struct recorder_arm request;

/* Whether the recorder can do what is asked for. */
bool request_is_valid(const struct recorder_arm *wanted);

/* Whether the address lies in a task's slot, where the task counts its operations. */
static inline bool request_is_slot(uint64_t address)
{
	return address - request.slots < request.nr_slots * request.slot_bytes;
}

#endif
