// SPDX-License-Identifier: GPL-2.0-or-later
/* Path lookup, opens, cached reads and appends, most of them of a few files: their inodes' locks and counts. */
/* As randomfileaccess.f. */
#include "filebench.h"

char *testcase_description = "append to one of 1,000 files, often the same ones, and read two";
char *testcase_differs = "1,000 files of 27 KiB, which are truncated at 1 MiB";

#define FILES 1000
#define SIZE (27 * KIB)
#define TIMES_AS_MANY 10

static struct set files = { .name = "bigfileset", .width = 20 };

/*
 * The original draws the file's number from a gamma distribution of shape and mean 0.1, times half the files. Nearly so
 * distributed is the tenth power of what is even; a number that is too high begins again at the first file.
 */
static unsigned long popular(void)
{
	double even = 0.9514 * random_below(1 << 30) / (1 << 30), power = even;

	for (int times = 1; times < TIMES_AS_MANY; times++)
		power *= even;
	return (unsigned long)(power * FILES / 2) % FILES;
}

static int open_popular(void)
{
	char path[PATH_MAX];
	int fd;

	path_of(path, &files, popular());
	fd = open(path, O_RDWR);
	if (fd < 0)
		die("randomfileaccess: open");
	return fd;
}

static void extend(int fd)
{
	append_random(fd, 16 * KIB);
	if (lseek(fd, 0, SEEK_CUR) > (off_t)MIB && ftruncate(fd, SIZE))
		die("randomfileaccess: ftruncate");
}

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_set(&files, FILES, 10, SIZE);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	begin_task(nr);
	while (1) {
		int first = open_popular(), second = open_popular(), third = open_popular();

		extend(first);
		close(first);
		read_whole(second);
		read_whole(third);
		close(second);
		close(third);
		(*iterations)++;
	}
}
