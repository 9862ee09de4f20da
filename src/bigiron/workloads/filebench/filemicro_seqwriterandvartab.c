// SPDX-License-Identifier: GPL-2.0-or-later
/* New pages at the end of the task's own file, and pages that are only filled up. */
/* As filemicro_seqwriterandvartab.f, with its table of sizes. */
#include "large_file.h"

char *testcase_description = "append 1 to 64 KiB to the task's own file, 5.5 KiB on average";
char *testcase_differs = "a file that is truncated at 64 MiB, and stays open";

void testcase_prepare(unsigned long nr_tasks)
{
	make_large_files(nr_tasks, 0);
}

static unsigned long size(void)
{
	unsigned long percent = random_below(100);

	if (percent < 80)
		return KIB + random_below(3 * KIB);
	if (percent < 95)
		return 4 * KIB + random_below(12 * KIB);
	return 16 * KIB + random_below(48 * KIB);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_numbered_file(nr, O_RDWR);

	begin_task(nr);
	while (1) {
		append_within(fd, size());
		(*iterations)++;
	}
}
