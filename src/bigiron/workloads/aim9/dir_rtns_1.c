// SPDX-License-Identifier: GPL-2.0-or-later
/* Reading an open directory, the same for all tasks: its inode lock, and what its entries are. */
/* As dir_rtns_1(). */
#include "aim9.h"

#include <dirent.h>

char *testcase_description = "read 100 entries of a shared directory of 1,000";
char *testcase_differs = "a directory of 1,000 files instead of /bin";

void testcase_prepare(unsigned long nr_tasks)
{
	char path[PATH_MAX];

	(void)nr_tasks;
	make_folder();
	for (unsigned long file = 0; file < 1000; file++) {
		own_path(path, 0, file);
		close(create_at(path, 0));
	}
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	DIR *directory = opendir(folder);

	(void)nr;
	if (!directory)
		die("dir_rtns_1: opendir");
	while (1) {
		for (int entries = 0; entries < 100; entries++)
			if (!readdir(directory))
				rewinddir(directory);
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	remove_folder();
}
