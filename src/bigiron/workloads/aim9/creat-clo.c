// SPDX-License-Identifier: GPL-2.0-or-later
/* A path in one directory that all tasks use, and the truncation of the task's own empty file. */
/* As creat_clo(): the same file 1,000 times over. */
#include "aim9.h"

char *testcase_description = "creat the task's own file, which exists, and close it";

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	char path[PATH_MAX];

	own_path(path, nr, 0);
	while (1) {
		int fd = creat(path, 0777);

		if (fd < 0 || close(fd))
			die("creat-clo: creat");
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	remove_folder();
}
