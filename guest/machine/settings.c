// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "settings.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/job.h"
#include "protocol/report.h"

/* The path of a setting, "PATH=VALUE"; `value` is what follows. Freed by the caller; NULL after reporting the error. */
static char *path_of(const char *setting, const char **value)
{
	const char *equals = strchr(setting, '=');
	char *path;

	if (!equals) {
		report_error("setting", "'%s' is not PATH=VALUE", setting);
		return NULL;
	}
	*value = equals + 1;
	path = strndup(setting, equals - setting);
	if (!path)
		report_error("setting", "no memory for the path of '%s'", setting);
	return path;
}

static int write_to(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC), failed;

	if (fd < 0)
		return report_error("setting", "cannot open %s: %m", path);
	failed = write(fd, value, strlen(value)) < 0;
	if (failed)
		report_error("setting", "cannot write '%s' to %s: %m", value, path);
	close(fd);
	return failed;
}

int apply_settings(const struct job *job)
{
	int failed = 0;

	for (unsigned long i = 0; i < job->nr_settings && !failed; i++) {
		const char *value;
		char *path = path_of(job->settings[i], &value);

		failed = !path || write_to(path, value);
		free(path);
	}
	return failed;
}

static struct {
	char *path, *value;
} before[MAX_SETTINGS];
static unsigned long nr_before;

/* Of a choice, such as "always [madvise] never", the one that is chosen. NULL: no memory. */
static char *chosen(char *text)
{
	char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;

	text[strcspn(text, "\n")] = 0;
	return close ? strndup(open + 1, close - open - 1) : strdup(text);
}

int remember_settings(const struct job *job)
{
	for (unsigned long i = 0; i < job->nr_settings; i++) {
		const char *value;
		char text[4096] = "", *path = path_of(job->settings[i], &value);
		FILE *file = path ? fopen(path, "re") : NULL;

		if (!path)
			return 1;
		if (!file || !fgets(text, sizeof(text), file))
			return report_error("setting", "cannot read %s, so as to put it back later: %m", path);
		fclose(file);
		before[nr_before].path = path;
		before[nr_before].value = chosen(text);
		if (!before[nr_before].value)
			return report_error("setting", "no memory for what %s holds", path);
		nr_before++;
	}
	return 0;
}

int restore_settings(void)
{
	int lost = 0;

	while (nr_before--)
		lost |= write_to(before[nr_before].path, before[nr_before].value);
	return lost;
}
