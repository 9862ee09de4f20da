/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For workloads that take CPUs offline and online. A round has a fixed number of operations, done in order by one task.
 * Before each round, and after the last one, the CPUs have their original states.
 */
#ifndef HOTPLUG_H
#define HOTPLUG_H

enum hotplug_state { CPU_OFFLINE, CPU_ONLINE };

/* How many CPUs workloads cycle; 0: all but the first. */
void hotplug_limit(unsigned long most);

/*
 * Choose the CPUs that a workload cycles, in order: all but the first, up to the limit. Put them into the state that they
 * leave in the first operation. Returns the number of operations, one per CPU. After reporting an error, ends the process.
 */
unsigned long hotplug_prepare(enum hotplug_state leave);
void hotplug_cycle(unsigned long long *iterations, enum hotplug_state enter) __attribute__((noreturn));
/* All go offline, then all go online: twice as many operations as hotplug_prepare(CPU_ONLINE) returns. */
void hotplug_there_and_back(unsigned long long *iterations) __attribute__((noreturn));

/* The same for the second threads of all cores, all of them in one operation. */
unsigned long smt_prepare(enum hotplug_state leave);
void smt_cycle(unsigned long long *iterations, enum hotplug_state enter) __attribute__((noreturn));

/* Remember each CPU's state, and restore it. The latter returns 0, or 1 after reporting the CPUs that it could not. */
void hotplug_remember(void);
int hotplug_restore(void);
/* Whether all is as it was remembered. */
int hotplug_is_restored(void);

#endif
