/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * On a real machine everything gets back what it had, however the agent ends: a process of its own waits for that end,
 * and brings it about when a pipe that is the agent's standard input ends, as it does with who started the agent. It also
 * removes what the workload has left (temporary.h). Ten seconds after the agent it waits no longer for what the agent
 * started, and reports what remains: as an error if that may change settings or CPUs again. Nor does it keep the machine's
 * lock for longer while it removes files.
 */
#ifndef GUARD_H
#define GUARD_H

struct job;

/* Before anything is changed. Returns 0, or 1 after reporting the error. */
int guard_begin(const struct job *job);
/* Let it put everything back now. Returns 0, or 1 where it said that it could not. */
int guard_end(void);

#endif
