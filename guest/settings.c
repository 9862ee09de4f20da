// SPDX-License-Identifier: GPL-2.0-or-later
#include "settings.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "job.h"
#include "report.h"

static int apply(char *setting)
{
	char *value = strchr(setting, '=');
	int fd, failed;

	if (!value)
		return report_error("setting", "'%s' is not PATH=VALUE", setting);
	*value++ = 0;
	fd = open(setting, O_WRONLY | O_TRUNC | O_CLOEXEC);
	if (fd < 0)
		return report_error("setting", "cannot open %s: %m", setting);
	failed = write(fd, value, strlen(value)) < 0;
	if (failed)
		report_error("setting", "cannot write '%s' to %s: %m", value, setting);
	close(fd);
	return failed;
}

int apply_settings(const struct job *job)
{
	int failed = 0;

	for (unsigned long i = 0; i < job->nr_settings && !failed; i++)
		failed = apply(job->settings[i]);
	return failed;
}
