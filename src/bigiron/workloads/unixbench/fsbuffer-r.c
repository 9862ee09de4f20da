// SPDX-License-Identifier: GPL-2.0-or-later
/* The cached pages of the task's own file: what read() costs. */
/* As fstime.c's read test for fsbuffer-r. */
#define BLOCK 256
#define BLOCKS (500 * 1024 / BLOCK)
#include "copy.h"

char *testcase_description = "read 256 bytes of the task's own file";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = make_file();

	(void)nr;
	while (1) {
		if (!read_block(fd))
			rewind_file(fd);
		else
			(*iterations)++;
	}
}
