/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The resources that each single operation uses, for workloads whose operations are few and long. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

/* Before tasks start: room for so many. Returns 0, or 1 after reporting the error. */
int operations_prepare(unsigned long most);

/* What is done around each operation. */
enum operations_watched { WATCH_NOTHING, WATCH_USAGE, WATCH_FUNCTIONS, WATCH_BLOCKED };

/* By the agent, before a round and after it. */
void operations_watch(enum operations_watched what);
/* Report the resources used, after WATCH_USAGE. */
void operations_report(void);

/*
 * By the task, around its operation `nr`, which puts `cpu` (-1: several) into a state. They cost nothing unless operations
 * are watched.
 */
void operation_begin(void);
void operation_end(unsigned long nr, int cpu, const char *state);

#endif
