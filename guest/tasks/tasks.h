/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tasks of a workload: processes or threads, pinned to the CPUs in turn, each with a counter of its own. */
#ifndef TASKS_H
#define TASKS_H

#include <stdint.h>

struct job;

#define TASK_SLOT_BYTES 256 /* two cache lines of the largest kind: no two counters share a line or a pair */

/* Prepare the workload and create its tasks, held until release_tasks(). Returns 0, or 1 after reporting. */
int start_tasks(const struct job *job);
void release_tasks(const struct job *job);
/* Whether the workload does its operations in rounds; else it continues until it is stopped. */
int workload_is_bounded(void);
unsigned long operations_of_a_round(void);
/* By the task of a workload that has rounds: wait for the next round. A round begins with a count. */
void begin_round(unsigned long long *iterations);
/* Move all tasks onto one CPU, and back: on an emulator, an interrupt waits for the time slices of all busy CPUs. */
void gather_tasks(const struct job *job);
void spread_tasks(const struct job *job);
void stop_tasks(const struct job *job);

uint64_t task_slots(void); /* address of the first counter */
uint64_t task_operations(unsigned long task);
/*
 * Wait until each task has done so many operations in all, or for so long. The wait ends early only if operations end the
 * tasks' time slices.
 */
void set_targets(const uint64_t *operations);
void wait_for_targets(uint64_t ns);
/* How many operations each task has done so far. */
void read_operations(uint64_t *operations, unsigned long tasks);
/* Whether a task sleeps, and in which function of the kernel; -1: the kernel does not tell. */
int task_waits(unsigned long task, char *function, int bytes);
int is_workload_task(unsigned int pid);

/* Report a task that ended, which is an error. Returns 1 if there was one. */
int report_dead_task(const struct job *job);

#endif
