// SPDX-License-Identifier: GPL-2.0-or-later
/* Directory entries of one inode, in a directory that all tasks use: its lock; link counts, dentries. */
/* As link_test(): seven names besides the first, removed and made in turn. */
#include "aim9.h"

char *testcase_description = "remove one of eight links to the task's own file, and make it again";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char file[PATH_MAX], path[PATH_MAX];

	own_path(file, nr, 0);
	close(create_at(file, 0));
	for (unsigned long index = 1; index < 8; index++) {
		own_path(path, nr, index);
		if (link(file, path))
			die("link_test: link");
	}
	for (unsigned long index = 0;; index = (index + 1) % 7) {
		own_path(path, nr, index + 1);
		if (unlink(path) || link(file, path))
			die("link_test: link");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	remove_folder();
}
