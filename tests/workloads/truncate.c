// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Cuts a page of a file that all tasks share: the kernel fills the rest of the page with zeros, first all but its
 * first line, then its second half, with one instruction, up to the same end.
 */
#include <assert.h>
#include <fcntl.h>
#include <unistd.h>

char *testcase_description = "cut a page of a common file twice";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int file = open("/tmp/common", O_RDWR | O_CREAT, 0600);

	(void)nr;
	assert(file >= 0);
	assert(pwrite(file, "page", 4, 0) == 4);
	for (;;) {
		assert(ftruncate(file, 4096) == 0);
		assert(ftruncate(file, 64) == 0);
		assert(ftruncate(file, 4096) == 0);
		assert(ftruncate(file, 2048) == 0);
		(*iterations)++;
	}
}
