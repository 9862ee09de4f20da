/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What QEMU does for all CPUs of a machine where one would do: with hundreds of CPUs it does little else. */
#ifndef MANY_CPUS_H
#define MANY_CPUS_H

/*
 * To be called by the one thread that runs all CPUs, for each CPU (current_cpu) before that runs. It changes nothing
 * that a guest can see, and nothing at all with -icount and where QEMU is not as it is known.
 */
void many_cpus_init(void);

#endif
