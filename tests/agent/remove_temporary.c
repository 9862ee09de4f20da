// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Removes what it is given the names of, as the guard removes what a workload of one task has made. Linked with --wrap of
 * the functions below, it does as on older kernels, without those that WITHOUT names.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "protocol/report.h"
#include "real/temporary.h"

int __real_statx(int folder, const char *path, int flags, unsigned int mask, struct statx *status);
int __wrap_statx(int folder, const char *path, int flags, unsigned int mask, struct statx *status);
int __real_name_to_handle_at(int folder, const char *path, struct file_handle *handle, int *mount, int flags);
int __wrap_name_to_handle_at(int folder, const char *path, struct file_handle *handle, int *mount, int flags);
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

static int is_without(const char *function)
{
	return !!strstr(getenv("WITHOUT"), function);
}

int __wrap_statx(int folder, const char *path, int flags, unsigned int mask, struct statx *status)
{
	int failed = __real_statx(folder, path, flags, mask, status);

	if (is_without("statx"))
		status->stx_attributes_mask &= ~STATX_ATTR_MOUNT_ROOT;
	return failed;
}

int __wrap_name_to_handle_at(int folder, const char *path, struct file_handle *handle, int *mount, int flags)
{
	if (!is_without("name_to_handle_at"))
		return __real_name_to_handle_at(folder, path, handle, mount, flags);
	errno = EOPNOTSUPP;
	return -1;
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
	return is_without("fopen") ? NULL : __real_fopen(path, mode);
}

int report_error(const char *kind, const char *format, ...)
{
	va_list args;

	printf("%s: ", kind);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	return 1;
}

int main(int argc, char **argv)
{
	int spared;

	for (int i = 1; i < argc; i++)
		temporary_take(argv[i], strlen(argv[i]));
	spared = temporary_spare(1);
	temporary_remove(1);
	return spared;
}
