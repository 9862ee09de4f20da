/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The file system that a workload works on in a virtual machine: its modules, its disk in memory, where it is mounted. */
#ifndef FILE_SYSTEM_H
#define FILE_SYSTEM_H

struct job;

/*
 * Load the modules that were handed over, in the order in which the job has them, and mount the job's file system on /tmp,
 * which becomes the working directory. Returns 0, or 1 after reporting the error.
 */
int file_system_mount(const struct job *job);

#endif
