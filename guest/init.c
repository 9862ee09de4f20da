// SPDX-License-Identifier: GPL-2.0-or-later
#include "init.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
	const char *type, *path;
} file_systems[] = {
	{ "proc", "/proc" },
	{ "sysfs", "/sys" },
	{ "devtmpfs", "/dev" },
	{ "tmpfs", "/tmp" },
	{ "tmpfs", "/dev/shm" },
	{ "debugfs", "/sys/kernel/debug" },
	{ "tracefs", "/sys/kernel/tracing" },
};

void init_machine(void)
{
	for (size_t i = 0; i < sizeof(file_systems) / sizeof(*file_systems); i++) {
		mkdir(file_systems[i].path, 0755);
		/* A kernel built without one of them still runs every workload that does not need it. */
		if (mount(file_systems[i].type, file_systems[i].path, file_systems[i].type, 0, NULL))
			printf("agent: no %s: %m\n", file_systems[i].type);
	}
	if (chdir("/tmp"))
		perror("agent: /tmp");
}

void halt_machine(void)
{
	sync();
	reboot(RB_AUTOBOOT);
	for (;;)
		pause();
}
