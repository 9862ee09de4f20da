// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * tmpfs counts its used blocks in a percpu_counter: to write a page and to take it away changes the own CPU's share,
 * and statfs adds up the shares of all CPUs.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

char *testcase_description = "write a page of an own file, ask for the free space, take the page away";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[64];
	struct statfs space;
	int file;

	snprintf(path, sizeof(path), "/tmp/%lu", nr);
	file = open(path, O_RDWR | O_CREAT, 0600);
	assert(file >= 0);
	for (;;) {
		assert(pwrite(file, "page", 4, 0) == 4);
		assert(fstatfs(file, &space) == 0);
		assert(ftruncate(file, 0) == 0);
		(*iterations)++;
	}
}
