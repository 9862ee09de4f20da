// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "qemu/leave.h"

#include <dlfcn.h>

/* Since QEMU 10.2 cpu_exit() kicks the CPU's thread as well: all CPUs, where one thread runs them. */
leave_fn *qemu_leave(void)
{
	leave_fn *leave = (leave_fn *)dlsym(RTLD_DEFAULT, "tcg_kick_vcpu_thread");

	return leave ? leave : (leave_fn *)dlsym(RTLD_DEFAULT, "cpu_exit");
}
