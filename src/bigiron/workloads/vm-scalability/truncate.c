// SPDX-License-Identifier: GPL-2.0-or-later
/* The last of a file with cached pages: they leave the page cache and the LRU lists, and are freed in batches. */
/* As case-truncate. */
#define PAGES 256UL
#include "usemem.h"

char *testcase_description = "read 256 pages of a new file on a disk, and remove it";
char *testcase_differs = "1 MiB per file, each made in the measured part";

static void read_all(int fd)
{
	static __thread char piece[AT_ONCE * PAGE];

	for (unsigned long page = 0; page < PAGES; page += AT_ONCE)
		if (pread(fd, piece, sizeof(piece), page * PAGE) != sizeof(piece))
			die("truncate: pread");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;
	while (1) {
		int fd = make_file_on_disk();

		read_all(fd);
		close(fd);
		(*iterations)++;
	}
}
