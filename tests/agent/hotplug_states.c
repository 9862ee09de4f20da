// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Remembers the states of CPUs in CPU_FOLDER, waits for a line of standard input, after which they differ, and restores
 * them. Linked with --wrap=write, it prints what is written to each file, in order.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probes/operations.h"
#include "protocol/report.h"
#include "tasks/tasks.h"
#include "workload/hotplug.h"

ssize_t __real_write(int fd, const void *bytes, size_t length);
ssize_t __wrap_write(int fd, const void *bytes, size_t length);

ssize_t __wrap_write(int fd, const void *bytes, size_t length)
{
	char link[40], path[PATH_MAX] = "";

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (readlink(link, path, sizeof(path) - 1) > 0)
		printf("%s=%.*s\n", path, (int)length, (const char *)bytes);
	/* As the kernel's files do, it holds nothing else then. */
	if (ftruncate(fd, 0))
		return -1;
	return __real_write(fd, bytes, length);
}

int report_error(const char *kind, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fprintf(stderr, "%s: ", kind);
	vfprintf(stderr, format, args);
	va_end(args);
	return 1;
}

int operations_prepare(unsigned long most)
{
	return !most;
}

void operation_begin(void)
{
}

void operation_end(unsigned long nr, int cpu, const char *state)
{
	(void)nr, (void)cpu, (void)state;
}

void begin_round(unsigned long long *iterations)
{
	++*iterations;
}

int main(void)
{
	hotplug_remember();
	puts("remembered");
	fflush(stdout);
	getchar();
	return hotplug_is_restored() || hotplug_restore() || !hotplug_is_restored();
}
