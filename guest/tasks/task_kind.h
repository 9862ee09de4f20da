/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TASK_KIND_H
#define TASK_KIND_H

/* "workload", "agent", "kthread", "idle", or "task" for any other. */
const char *task_kind(unsigned int pid);

/* Whether events and BPF programs have the same task numbers as /proc; else, why not. */
int kernel_numbers_tasks_alike(void);
#define OTHER_NUMBERS "in a PID namespace, such as a container's, tasks have other numbers than in the kernel's events: run it outside"

#endif
