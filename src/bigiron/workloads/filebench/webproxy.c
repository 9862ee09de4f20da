// SPDX-License-Identifier: GPL-2.0-or-later
/* One directory that all tasks change, inodes that come and go; lookups, opens and cached reads. */
/* As webproxy.f, with one task on a CPU instead of 100 threads. */
#include "filebench.h"

char *testcase_description = "delete one of 1,000 files of 16 KiB, write another, and read five";
char *testcase_differs = "1,000 files instead of 10,000";

#define FILES 1000

static struct set files = { .name = "bigfileset", .width = 0 };

void testcase_prepare(unsigned long nr_tasks)
{
	make_folder();
	make_set(&files, nr_tasks * 16 > FILES ? nr_tasks * 16 : FILES, 8, 16 * KIB);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct file file;

	begin_task(nr);
	while (1) {
		delete_file(&files);
		file = create_file(&files);
		append_random(file.fd, 16 * KIB);
		close_file(&files, file);
		for (int page = 0; page < 5; page++) {
			file = open_file(&files, O_RDWR);
			read_whole(file.fd);
			close_file(&files, file);
		}
		(*iterations)++;
	}
}
