// SPDX-License-Identifier: GPL-2.0-or-later
/* The cached pages of the task's own file: write(), the inode's lock, time stamps and dirty pages. */
/* As fstime.c's write test for fsbuffer-w. */
#define BLOCK 256
#define BLOCKS (500 * 1024 / BLOCK)
#include "copy.h"

char *testcase_description = "write 256 bytes to the task's own file";

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
