// SPDX-License-Identifier: GPL-2.0-or-later
/* The path walk: dentries and directories that all tasks meet, now and then. */
#include "fxmark.h"

char *testcase_description = "stat a file by chance, in a tree that tasks share";

/* In each directory. */
#define NAMES 4

static void make_tree(const char *path, int depth)
{
	char below[PATH_MAX];

	for (int name = 0; name < NAMES; name++) {
		if (snprintf(below, sizeof(below), "%s/%d", path, name) >= (int)sizeof(below))
			die("MRPM: path");
		if (!depth) {
			create_file(below);
			continue;
		}
		make_directory(below);
		make_tree(below, depth - 1);
	}
}

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	make_folder();
	make_tree(folder, 4);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	unsigned int seed = nr + 1;
	char path[PATH_MAX];
	struct stat status;

	while (1) {
		unsigned int chance = rand_r(&seed);

		path_of(path, "%u/%u/%u/%u/%u", chance % NAMES, chance / 4 % NAMES, chance / 16 % NAMES,
			chance / 64 % NAMES, chance / 256 % NAMES);
		if (stat(path, &status))
			die("MRPM: stat");
		(*iterations)++;
	}
}
