// SPDX-License-Identifier: GPL-2.0-or-later
/* Path lookup four directories deep, and the attributes of a shared inode. */
/* As filemicro_statfile.f. */
#include "filebench.h"

char *testcase_description = "stat the next of 2,000 shared files, four directories deep";
char *testcase_differs = "2,000 empty files instead of 10,000 of 128 KiB";

#define FILES 2000

static struct set files = { .name = "bigfileset", .width = 20 };

void testcase_prepare(unsigned long nr_tasks)
{
	make_folder();
	make_set(&files, nr_tasks * 16 > FILES ? nr_tasks * 16 : FILES, 10, 0);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	while (1) {
		stat_file(&files);
		(*iterations)++;
	}
}
