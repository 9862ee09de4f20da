// SPDX-License-Identifier: GPL-2.0-or-later
/* New pages at the end of the task's own file, and pages that are only filled up. */
/* As filemicro_seqwriterandvargam.f. */
#include "large_file.h"

char *testcase_description = "append at least 1 KiB to the task's own file, 5.5 KiB on average";
char *testcase_differs = "a file that is truncated at 64 MiB, and stays open";

/* Means of the 16 sixteenths of a gamma distribution of shape 1.5 with a mean of 4.5 KiB, in bytes. */
static const unsigned short more[] = {
	372,  853,  1265, 1663, 2064, 2480, 2919, 3385,
	3899, 4469, 5116, 5878, 6815, 8043, 9892, 14614,
};

void testcase_prepare(unsigned long nr_tasks)
{
	make_large_files(nr_tasks, 0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = open_numbered_file(nr, O_RDWR);

	begin_task(nr);
	while (1) {
		append_within(fd, KIB + more[random_below(16)]);
		(*iterations)++;
	}
}
