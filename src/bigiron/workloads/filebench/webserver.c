// SPDX-License-Identifier: GPL-2.0-or-later
/* Path lookup, opens and cached reads of shared files; all tasks append to one log: its inode lock. */
/* As webserver.f, with one task on a CPU instead of 100 threads. */
#include "filebench.h"

char *testcase_description = "open, read and close ten of 1,000 files of 16 KiB, and append to the log";
char *testcase_differs = "a log that is truncated at 64 MiB";

#define FILES 1000
#define PAGES 10 /* that are served between two entries in the log */
#define LOG (64 * MIB)

static struct set files = { .name = "bigfileset", .width = 20 };
static struct set logs = { .name = "logfiles" };

static void append_to_log(int log)
{
	append_random(log, 16 * KIB);
	if (lseek(log, 0, SEEK_CUR) > (off_t)LOG && ftruncate(log, 0))
		die("webserver: ftruncate");
}

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_set(&files, FILES, 10, 16 * KIB);
	make_set(&logs, 1, 10, 16 * KIB);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	int log = open_file(&logs, O_RDWR).fd;

	begin_task(nr);
	while (1) {
		for (int page = 0; page < PAGES; page++) {
			struct file file = open_file(&files, O_RDONLY);

			read_whole(file.fd);
			close_file(&files, file);
		}
		append_to_log(log);
		(*iterations)++;
	}
}
