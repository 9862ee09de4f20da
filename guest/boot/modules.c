// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "modules.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "protocol/report.h"

#define OPTIONAL "optional-"

/* "07-erofs.ko", or "06-optional-crc32c_intel.ko" */
static int load(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC), failed;
	const char *place = strchr(name, '-'), *module = place ? place + 1 : name;

	if (fd < 0)
		return report_error("machine", "cannot read the module %s: %m", module);
	failed = syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST &&
		 strncmp(module, OPTIONAL, strlen(OPTIONAL));
	if (failed)
		report_error("setting", "the kernel does not load the module %s: %m", module);
	close(fd);
	return failed;
}

int modules_load(void)
{
	int folder = open("/modules", O_RDONLY | O_DIRECTORY | O_CLOEXEC), failed = 0;
	struct dirent **entries;
	int number = folder < 0 ? 0 : scandirat(folder, ".", &entries, NULL, alphasort);

	for (int i = 0; i < number && !failed; i++)
		failed = entries[i]->d_type == DT_REG && load(folder, entries[i]->d_name);
	if (folder >= 0)
		close(folder);
	return failed;
}
