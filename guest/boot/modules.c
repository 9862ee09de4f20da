// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "modules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../report.h"

static int load(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC), failed;

	if (fd < 0)
		return report_error("machine", "cannot read the module %s: %m", name);
	failed = syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST;
	if (failed)
		report_error("setting", "the kernel does not load the module %s: %m", name);
	close(fd);
	return failed;
}

int modules_load(void)
{
	DIR *folder = opendir("/modules");
	struct dirent *entry;
	int failed = 0;

	while (folder && !failed && (entry = readdir(folder)))
		failed = entry->d_type == DT_REG && load(dirfd(folder), entry->d_name);
	if (folder)
		closedir(folder);
	return failed;
}
