// SPDX-License-Identifier: GPL-2.0-or-later
/* Apart from recorder.c, which a machine boots with: what it boots with decides which snapshots serve it. */
#include "recorder.h"

void record_program(uint64_t what)
{
	const struct recorder_arm arm = { .what = what | RECORD_PROGRAM };

	recorder_mark(MARK_ARM, &arm, sizeof(arm));
	recorder_show_agent();
	record_program_end(); /* of a part that has not begun: until one does, the machine runs at full speed */
}
