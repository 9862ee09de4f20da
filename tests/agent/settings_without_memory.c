// SPDX-License-Identifier: GPL-2.0-or-later
/* The agent's settings where there is no memory to remember a path, or a value. Its argument: how many copies there is. */
#include <stdlib.h>
#include <string.h>

#include "protocol/job.h"
#include "machine/settings.h"

static int copies;

/* In place of the C library's. */
char *strndup(const char *text, size_t length)
{
	char *copy = copies-- > 0 ? calloc(1, length + 1) : NULL;

	return copy ? memcpy(copy, text, length) : NULL;
}

char *strdup(const char *text)
{
	return strndup(text, strlen(text));
}

int main(int argc, char **argv)
{
	static struct job job;

	copies = argc == 2 ? atoi(argv[1]) : 0;
	job.settings[job.nr_settings++] = "/proc/sys/kernel/pid_max=1";
	return remember_settings(&job);
}
