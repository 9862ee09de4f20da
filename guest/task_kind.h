/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef TASK_KIND_H
#define TASK_KIND_H

/* "workload", "agent", "kthread", "idle", or "task" for any other. */
const char *task_kind(unsigned int pid);

#endif
