// SPDX-License-Identifier: GPL-2.0-or-later
#include "load.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static char first_warning[256];

static int keep_first_warning(enum libbpf_print_level level, const char *format, va_list args)
{
	if (level == LIBBPF_WARN && !first_warning[0]) {
		vsnprintf(first_warning, sizeof(first_warning), format, args);
		first_warning[strcspn(first_warning, "\n")] = 0;
	}
	return 0;
}

void bpf_capture_errors(void)
{
	first_warning[0] = 0;
	libbpf_set_print(keep_first_warning);
}

const char *bpf_error(void)
{
	return first_warning[0] ? first_warning : strerror(errno);
}
