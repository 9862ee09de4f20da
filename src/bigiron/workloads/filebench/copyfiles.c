// SPDX-License-Identifier: GPL-2.0-or-later
/* Reads of cached files, inodes and directory entries that are made, the lock of their directory, and new pages. */
/* As copyfiles.f: 1,000 files of 16 KiB. */
#include "new_files.h"

char *testcase_description = "copy one of 1,000 files of 16 KiB, twenty in each directory";
char *testcase_differs = "1,024 copies for each task, which are then removed";

static struct set originals = { .name = "originals", .width = 20 };

void testcase_prepare(unsigned long nr_tasks)
{
	make_parents(nr_tasks, 20);
	make_set(&originals, 1000, 10, 16 * KIB);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	for (unsigned long index = 0;; index++) {
		struct file original = open_file(&originals, O_RDWR);

		read_whole(original.fd);
		index = with_room(nr, index);
		make_file(nr, index, 16 * KIB);
		close_file(&originals, original);
		(*iterations)++;
	}
}
