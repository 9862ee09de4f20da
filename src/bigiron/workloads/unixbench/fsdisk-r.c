// SPDX-License-Identifier: GPL-2.0-or-later
/* The cached pages of the task's own file: what read() costs. */
/* As fstime.c's read test for fsdisk-r. */
#define BLOCK 4096
#define BLOCKS (1000 * 1024 / BLOCK)
#include "copy.h"

char *testcase_description = "read 4096 bytes of the task's own file";
char *testcase_differs = "files of 1,000 KiB instead of 8,000";

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
