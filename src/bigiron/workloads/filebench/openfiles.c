// SPDX-License-Identifier: GPL-2.0-or-later
/* Path lookup, struct file and inode of one of many shared files: reference counts of dentry and label. */
/* As openfiles.f, with one task on a CPU instead of 16 threads. */
#include "filebench.h"

char *testcase_description = "open and close the next of 2,000 shared empty files";
char *testcase_differs = "2,000 empty files instead of 50,000";

#define FILES 2000

static struct set files = { .name = "bigfileset", .width = 100 };

void testcase_prepare(unsigned long nr_tasks)
{
	make_folder();
	make_set(&files, nr_tasks * 16 > FILES ? nr_tasks * 16 : FILES, 10, 0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct file file;

	begin_task(nr);
	while (1) {
		file = open_file(&files, O_RDWR);
		close_file(&files, file);
		(*iterations)++;
	}
}
