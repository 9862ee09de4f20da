// SPDX-License-Identifier: GPL-2.0-or-later
#include "recording/parts.h"

#include "execution/blocks.h"
#include "execution/control_flow.h"
#include "execution/program.h"
#include "translation/translation.h"

void parts_begin(void)
{
	if (program_runs())
		return;
	control_flow_begin();
	program_run(true);
	translation_arm(true);
}

void parts_end(void)
{
	program_run(false);
	blocks_flush();
	translation_arm(false);
}
