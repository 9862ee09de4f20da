// SPDX-License-Identifier: GPL-2.0-or-later
#include "init.h"

#include <sys/reboot.h>
#include <unistd.h>

void halt_machine(void)
{
	sync();
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}
