/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef DIE_WITH_H
#define DIE_WITH_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/types.h>
#include <unistd.h>

/* By a process that was just forked: end when its parent ends, for whatever reason. */
static inline void die_with(pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1); /* it died before the kernel knew */
}

#endif
