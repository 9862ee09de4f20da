/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The control group that tasks run in. In the root group, where PID 1 starts them, a kernel charges nothing to them; on a
 * server each session, service and container is in a group below it.
 */
#ifndef CGROUP_H
#define CGROUP_H

struct job;

/*
 * Make the job's group, with the controllers on at each level above it, and report which the kernel has. Returns 0, or 1
 * after reporting the error. A kernel that lacks controllers, or control groups, is no error.
 */
int cgroup_make(const struct job *job);

/* Move the calling process, of one thread, into the group that was made. Returns 0, or 1 after reporting the error. */
int cgroup_enter(void);

#endif
