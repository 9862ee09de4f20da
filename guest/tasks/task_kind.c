// SPDX-License-Identifier: GPL-2.0-or-later
#include "task_kind.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tasks.h"

#define KERNEL_THREAD 0x00200000ul /* PF_KTHREAD, among the flags in /proc/PID/stat */
#define FIRST_PID_NAMESPACE 0xeffffffc /* PROC_PID_INIT_INO, linux/proc_ns.h */

static int is_kernel_thread(unsigned int pid)
{
	char path[40], line[512];
	unsigned long flags = 0;
	const char *rest;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	file = fopen(path, "re");
	if (file && fgets(line, sizeof(line), file) && (rest = strrchr(line, ')')))
		sscanf(rest + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags);
	if (file)
		fclose(file);
	return !!(flags & KERNEL_THREAD);
}

int kernel_numbers_tasks_alike(void)
{
	struct stat namespace;

	return stat("/proc/self/ns/pid", &namespace) || namespace.st_ino == FIRST_PID_NAMESPACE;
}

const char *task_kind(unsigned int pid)
{
	if (!pid)
		return "idle";
	if (is_workload_task(pid))
		return "workload";
	if (pid == (unsigned int)getpid())
		return "agent";
	return is_kernel_thread(pid) ? "kthread" : "task";
}
