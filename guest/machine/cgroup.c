// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "cgroup.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "protocol/job.h"
#include "protocol/report.h"

#define ROOT "/sys/fs/cgroup"

static const char *const controllers[] = { "cpu", "memory" };
#define NR_CONTROLLERS (sizeof(controllers) / sizeof(*controllers))

static char group[512]; /* the path of the one that was made; empty: none was */

static int has_cgroups(void)
{
	struct statfs status;

	return !statfs(ROOT, &status) && status.f_type == CGROUP2_SUPER_MAGIC;
}

static int write_to(const char *file, const char *sign, const char *text)
{
	char path[sizeof(group) + 32];
	int fd, failed;

	snprintf(path, sizeof(path), "%s/%s", group, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return 1;
	failed = dprintf(fd, "%s%s", sign, text) < 0;
	close(fd);
	return failed;
}

/* Make the next level of the group's path, `name`, for which the level above turns on those controllers that it has. */
static int descend(const char *name, size_t length, int *absent)
{
	size_t end = strlen(group);

	for (size_t i = 0; i < NR_CONTROLLERS; i++)
		absent[i] = absent[i] || write_to("cgroup.subtree_control", "+", controllers[i]);
	snprintf(group + end, sizeof(group) - end, "/%.*s", (int)length, name);
	return mkdir(group, 0755) ? report_error("machine", "cannot make the cgroup %s: %m", group) : 0;
}

int cgroup_make(const struct job *job)
{
	int absent[NR_CONTROLLERS] = { 0 };
	const char *level = job->cgroup;

	if (!level)
		return 0;
	if (strlen(level) + sizeof(ROOT) >= sizeof(group))
		return report_error("job", "the cgroup's path is too long: %s", level);
	if (!has_cgroups()) {
		for (size_t i = 0; i < NR_CONTROLLERS; i++)
			absent[i] = 1;
		report_cgroup(controllers, absent, NR_CONTROLLERS);
		return 0;
	}
	strcpy(group, ROOT);
	while (*level) {
		size_t length = strcspn(level, "/");

		if (descend(level, length, absent))
			return 1;
		level += length + (level[length] == '/');
	}
	report_cgroup(controllers, absent, NR_CONTROLLERS);
	return 0;
}

int cgroup_enter(void)
{
	if (*group && write_to("cgroup.procs", "", "0"))
		return report_error("machine", "cannot run tasks in the cgroup %s: %m", group);
	return 0;
}
