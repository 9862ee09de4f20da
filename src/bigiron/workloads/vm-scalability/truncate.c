// SPDX-License-Identifier: GPL-2.0-or-later
/* The last of a file with cached pages: they leave the page cache and the LRU lists, and are freed in batches. */
/* As case-truncate. */
#define BYTES (1UL << 20)
#include "usemem.h"

char *testcase_description = "read all of a new file on a disk, and remove it";
char *testcase_differs = "1 MiB per file, each made in the measured part";

static void read_all(int fd)
{
	static __thread char piece[PIECE];

	for (unsigned long at = 0; at < BYTES; at += PIECE)
		if (pread(fd, piece, PIECE, at) != PIECE)
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
