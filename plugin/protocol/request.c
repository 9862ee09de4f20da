// SPDX-License-Identifier: GPL-2.0-or-later
#include "protocol/request.h"

#define MAX_SLOTS (1 << 20)

struct recorder_arm request;

bool request_is_valid(const struct recorder_arm *wanted)
{
	if (wanted->what & RECORD_PROGRAM)
		return !wanted->nr_slots && !(wanted->what & (RECORD_TRACE | RECORD_TESTS | RECORD_LAYOUT));
	return wanted->slot_bytes && wanted->nr_slots <= MAX_SLOTS;
}
