/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What QEMU does for all CPUs of a machine where one would do: with hundreds of CPUs it does little else. */
#ifndef MANY_CPUS_H
#define MANY_CPUS_H

/*
 * To be called by the one thread that runs all CPUs, for each CPU (current_cpu) before that runs. A guest can
 * see that timers of CPUs other than the running one come later, at most by its time slice. With -icount, and where QEMU
 * is not as it is known, nothing changes.
 */
void many_cpus_init(void);

#endif
