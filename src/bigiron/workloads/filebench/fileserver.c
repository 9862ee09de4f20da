// SPDX-License-Identifier: GPL-2.0-or-later
/* Directories and inodes that change, new pages, their memory cgroup; appends, reads, removals. */
/* As fileserver.f, with one task on a CPU for 50 threads. */
#include "filebench.h"

char *testcase_description = "create, append to, read, delete and stat a file of 32 KiB each, of 200";
char *testcase_differs = "200 files of 32 KiB instead of 10,000 of 128 KiB";

#define FILES 200
#define SIZE (32 * KIB)

static struct set files = { .name = "bigfileset", .width = 20 };

void testcase_prepare(unsigned long nr_tasks)
{
	make_folder();
	make_set(&files, nr_tasks * 16 > FILES ? nr_tasks * 16 : FILES, 8, SIZE);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	struct file file;

	begin_task(nr);
	while (1) {
		file = create_file(&files);
		write_whole(file.fd, SIZE);
		close_file(&files, file);
		file = open_file(&files, O_RDWR);
		append_random(file.fd, 16 * KIB);
		close_file(&files, file);
		file = open_file(&files, O_RDWR);
		read_whole(file.fd);
		close_file(&files, file);
		delete_file(&files);
		stat_file(&files);
		(*iterations)++;
	}
}
