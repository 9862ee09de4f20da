/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An external command instead of a workload. */
#ifndef COMMAND_H
#define COMMAND_H

struct job;

/*
 * By the runner: run the command on as many CPUs as the job says, and report how it ended and what it printed. Of its
 * processes none is left, however it or the agent ends. Returns the runner's exit status (workload/measure.h).
 */
int run_command(const struct job *job);

#endif
