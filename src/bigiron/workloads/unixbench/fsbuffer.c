// SPDX-License-Identifier: GPL-2.0-or-later
/* The cached pages of the task's own files: read(), write(), the inode's lock, time stamps and dirty pages. */
/* As fstime.c's copy test for fsbuffer. */
#define BLOCK 256
#define BLOCKS (500 * 1024 / BLOCK)
#include "copy.h"

char *testcase_description = "copy 256 bytes from one of the task's own files to another";

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
