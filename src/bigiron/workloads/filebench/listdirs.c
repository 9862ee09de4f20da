// SPDX-License-Identifier: GPL-2.0-or-later
/* Opening and reading a shared directory: its inode lock, and what its entries are. */
/* As listdirs.f, in directories of five. */
#include "filebench.h"

char *testcase_description = "list the next of 200 shared directories of five files";
char *testcase_differs = "1,000 empty files instead of 50,000";

#define FILES 1000
#define WIDTH 5

static struct set files = { .name = "bigfileset", .width = WIDTH };

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_set(&files, FILES, 10, 0);
}

void testcase(unsigned long long *iterations, unsigned long task)
{
	char path[PATH_MAX];

	(void)task;
	while (1) {
		unsigned long nr = pick(&files, opened);
		DIR *directory;

		leave(&files, nr);
		parent_of(path, &files, nr * WIDTH % FILES, 1);
		directory = opendir(path);
		if (!directory)
			die("listdirs: opendir");
		while (readdir(directory))
			;
		closedir(directory);
		(*iterations)++;
	}
}
