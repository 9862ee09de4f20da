// SPDX-License-Identifier: GPL-2.0-or-later
/* Path lookup in a tree that all tasks use; inodes that are made and removed in its shared directories. */
/* As disk_src(), which stats 57 files for each 43 that it makes, of a tree of 340; here four and three, of 320. */
#include "aim9.h"

char *testcase_description = "stat four files of a shared tree, and create and remove three in it";

#define DIRECTORIES 10
#define FILES 320

/* Of the file: its directory is the last but one of five. */
static void path_in_tree(char path[PATH_MAX], unsigned int file, const char *name, unsigned long nr)
{
	unsigned int directory = file % DIRECTORIES;

	snprintf(path, PATH_MAX, "%s/usr%u/spool%u/uucp%u/%s%02lu", folder, directory / 4, directory / 2, directory,
		 name, nr);
}

static void make_parents(char *path)
{
	for (char *end = path + strlen(folder); (end = strchr(end + 1, '/')); *end = '/') {
		*end = 0;
		mkdir(path, 0777); /* of most files it exists */
	}
}

static unsigned int random_file(unsigned int *chance)
{
	*chance = *chance * 1103515245 + 12345;
	return (*chance >> 16) % FILES;
}

static void stat_file(unsigned int file)
{
	struct stat status;
	char path[PATH_MAX];

	path_in_tree(path, file, "fake", file / DIRECTORIES);
	if (stat(path, &status))
		die("disk_src: stat");
}

static void make_and_remove(unsigned int file, unsigned long task)
{
	char path[PATH_MAX];
	int fd;

	path_in_tree(path, file, "notexist", task);
	fd = creat(path, 0777);
	if (fd < 0 || close(fd) || unlink(path))
		die("disk_src: creat");
}

void testcase_prepare(unsigned long nr_tasks)
{
	char path[PATH_MAX];

	(void)nr_tasks;
	make_folder();
	for (unsigned int file = 0; file < FILES; file++) {
		path_in_tree(path, file, "fake", file / DIRECTORIES);
		make_parents(path);
		close(create_at(path, 0));
	}
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	unsigned int chance = nr;

	while (1) {
		for (int files = 0; files < 4; files++)
			stat_file(random_file(&chance));
		for (int files = 0; files < 3; files++)
			make_and_remove(random_file(&chance), nr);
		(*iterations)++;
	}
}

void testcase_cleanup(void)
{
	remove_folder();
}
