/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tasks of a workload: one pinned to each CPU in turn, processes or threads, each with a counter of its own. */
#ifndef TASKS_H
#define TASKS_H

#include <stdint.h>
#include <sys/types.h>

struct job;

#define TASK_SLOT_BYTES 256 /* two lines of the largest kind, so that no two counters share one */

/* Prepare the workload and create its tasks, held until release_tasks(). Returns 0, or 1 after reporting. */
int start_tasks(const struct job *job);
void release_tasks(const struct job *job);
/* Some workloads do their operations in rounds; the others go on until they are stopped. */
int workload_is_bounded(void);
unsigned long operations_of_a_round(void);
/* By the task of a workload that has rounds: wait until one is wanted. A round begins with a count. */
void begin_round(unsigned long long *iterations);
/* All onto one CPU, and back: an emulator lets each busy CPU run for long before one that has an interrupt to handle. */
void gather_tasks(const struct job *job);
void spread_tasks(const struct job *job);
void stop_tasks(const struct job *job);

/* By a process that was just forked: end when its parent ends, however that does. */
void die_with(pid_t parent);

uint64_t task_slots(void); /* address of the first counter */
uint64_t task_operations(unsigned long task);
/* Until each task has done so many operations in all, or so long: tasks tell if their turns end with operations. */
void set_goals(const uint64_t *operations);
void wait_for_goals(uint64_t ns);
/* What each task has done so far, into as many places. */
void read_operations(uint64_t *operations, unsigned long tasks);
/* "workload", "agent", "kthread", "idle", or "task" for any other. */
const char *kind_of_task(unsigned int pid);

/* Report a task that ended, which none should. Returns 1 if there was one. */
int report_dead_task(const struct job *job);

#endif
