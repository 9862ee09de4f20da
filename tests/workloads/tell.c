// SPDX-License-Identifier: GPL-2.0-or-later
/* Ends at once, and says in one line what the files hold that the boot parameter tell=FILE,FILE,... names. */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *testcase_description = "tell what is in some files";

static char *contents(const char *path)
{
	static char text[2048];
	int fd = open(path, O_RDONLY);

	memset(text, 0, sizeof(text));
	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		return "?";
	close(fd);
	text[strcspn(text, "\n")] = 0;
	return text;
}

void testcase_prepare(unsigned long nr_tasks)
{
	char *parameters = strdup(contents("/proc/cmdline"));
	char *files = strstr(parameters, "tell=");

	assert(files);
	files[strcspn(files, " ")] = 0;
	for (char *file = strtok(files + strlen("tell="), ","); file; file = strtok(NULL, ","))
		fprintf(stderr, "%s; ", contents(file));
	exit(0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
}
