// SPDX-License-Identifier: GPL-2.0-or-later
/* Pages of a file that a task writes to privately, one an operation: each is charged to the task's control group. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

char *testcase_description = "write to a private mapping of a file";

#define BYTES (8 << 20)

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char name[] = "/tmp/private.XXXXXX";
	int fd = mkstemp(name);

	(void)nr;
	if (fd < 0 || ftruncate(fd, BYTES))
		exit(1);
	unlink(name);
	while (1) {
		char *bytes = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

		if (bytes == MAP_FAILED)
			exit(1);
		for (long at = 0; at < BYTES; at += getpagesize()) {
			bytes[at] = 1;
			(*iterations)++;
		}
		munmap(bytes, BYTES);
	}
}
