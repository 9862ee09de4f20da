// SPDX-License-Identifier: GPL-2.0-or-later
/* The cached pages of the task's own file: write(), the inode's lock, time stamps and dirty pages. */
/* As fstime.c's write test for fsdisk-w. */
#define BLOCK 4096
#define BLOCKS (1000 * 1024 / BLOCK)
#include "copy.h"

char *testcase_description = "write 4096 bytes to the task's own file";
char *testcase_differs = "files of 1,000 KiB instead of 8,000";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = make_file();

	(void)nr;
	for (int blocks = 1;; blocks++) {
		write_block(fd);
		if (blocks % BLOCKS == 0)
			rewind_file(fd);
		(*iterations)++;
	}
}
