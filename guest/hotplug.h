/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For workloads that take CPUs offline and online. A round of them has so many operations and no more, done in
 * order by one task; before each round, and after the last, the CPUs are as they were.
 */
#ifndef HOTPLUG_H
#define HOTPLUG_H

enum hotplug_state { CPU_OFFLINE, CPU_ONLINE };

extern unsigned long cpus_to_cycle; /* 0: all but the first */

/*
 * Choose which CPUs a workload cycles, in order: all but the first, as far as cpus_to_cycle goes; and put them
 * into the state that they leave. Returns the number of operations, one a CPU. Ends the process after reporting an error.
 */
unsigned long hotplug_prepare(enum hotplug_state leave);
void hotplug_cycle(unsigned long long *iterations, enum hotplug_state enter) __attribute__((noreturn));
/* All go, then all come: twice as many operations as hotplug_prepare(CPU_ONLINE) says. */
void hotplug_there_and_back(unsigned long long *iterations) __attribute__((noreturn));

/* The same for the second threads of all cores, all of them in one operation. */
unsigned long smt_prepare(enum hotplug_state leave);
void smt_cycle(unsigned long long *iterations, enum hotplug_state enter) __attribute__((noreturn));

/* Each CPU's state; to put back what differs from it returns 0, or 1 after reporting what it could not. */
void hotplug_remember(void);
int hotplug_restore(void);

#endif
