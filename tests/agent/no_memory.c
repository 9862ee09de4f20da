// SPDX-License-Identifier: GPL-2.0-or-later
/* The agent's reports where memory streams cannot be had: they end, and say what was lost. */
#include <errno.h>
#include <stdio.h>

#include "protocol/report.h"

/* In place of the C library's. */
FILE *open_memstream(char **text, size_t *size)
{
	(void)text, (void)size;
	errno = ENOMEM;
	return NULL;
}

int main(void)
{
	report_stage("warm-up");
	report_error("workload", "it failed");
	report_lines("/file", stdin);
	report_end(1);
	return 0;
}
