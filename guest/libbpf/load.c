// SPDX-License-Identifier: GPL-2.0-or-later
#include "load.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static char complaint[256];

static int listen(enum libbpf_print_level level, const char *format, va_list args)
{
	if (level == LIBBPF_WARN && !complaint[0]) {
		vsnprintf(complaint, sizeof(complaint), format, args);
		complaint[strcspn(complaint, "\n")] = 0;
	}
	return 0;
}

void bpf_listen(void)
{
	complaint[0] = 0;
	libbpf_set_print(listen);
}

const char *bpf_complaint(void)
{
	return complaint[0] ? complaint : strerror(errno);
}
