// SPDX-License-Identifier: GPL-2.0-or-later
/* Space that is given back, without pages of the page cache. */
#define DIRECT O_DIRECT
#include "fxmark.h"

char *testcase_description = "truncate the task's own file by a block, past the page cache";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	unsigned long blocks = OFTEN;
	int fd = open_own_file(nr, blocks);

	while (1) {
		/* Nothing is left to cut off: a part of the operation that comes next. */
		if (!blocks) {
			blocks = OFTEN;
			write_blocks(fd, blocks);
		}
		if (ftruncate(fd, --blocks * BLOCK))
			die("DWTL-direct: ftruncate");
		(*iterations)++;
	}
}
