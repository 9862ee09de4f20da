// SPDX-License-Identifier: GPL-2.0-or-later
/* Dirty pages of the task's own file on a disk: faults that reserve blocks, write-back, the journal or the log. */
/* As case-msync. */
#define WRITES 1
#define BYTES (1UL << 20)
#include "usemem.h"

char *testcase_description = "write to all pages of a mapping of the task's own file on a disk, and msync";
char *testcase_differs = "1 MiB of a file, and faults instead of MAP_POPULATE";

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int fd = make_file_on_disk();
	volatile char *memory = map_file(fd);

	(void)nr;
	while (1) {
		for (unsigned long page = 0; page < pages; page += AT_ONCE)
			touch_some(memory, page);
		sync_pages(memory);
		empty_file(fd);
		(*iterations)++;
	}
}
