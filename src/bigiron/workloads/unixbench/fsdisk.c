// SPDX-License-Identifier: GPL-2.0-or-later
/* The cached pages of the task's own files: read(), write(), the inode's lock, time stamps and dirty pages. */
/* As fstime.c's copy test for fsdisk. */
#define BLOCK 4096
#define BLOCKS (1000 * 1024 / BLOCK)
#include "copy.h"

char *testcase_description = "copy 4096 bytes from one of the task's own files to another";
char *testcase_differs = "files of 1,000 KiB instead of 8,000";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int from = make_file(), to = make_file();

	(void)nr;
	while (1) {
		if (!read_block(from)) {
			rewind_file(from);
			rewind_file(to);
			continue;
		}
		write_block(to);
		(*iterations)++;
	}
}
