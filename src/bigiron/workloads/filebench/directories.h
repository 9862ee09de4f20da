/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What makedirs and removedirs share: empty directories, a hundred in each one above. A task has those of its own. */
#ifndef DIRECTORIES_H
#define DIRECTORIES_H

#include "filebench.h"

#define EACH 1024 /* of a task's own, made and removed in turn; the tasks' lie in the same directories */

static struct set directories = { .name = "bigfileset", .width = 100 };

OURS void make_parents(unsigned long nr_tasks)
{
	make_folder();
	directories.files = nr_tasks * EACH;
	make_directories(&directories);
}

/* The tasks take turns in each directory. */
OURS void directory_path(char path[PATH_MAX], unsigned long nr, unsigned long index)
{
	path_of(path, &directories, index * (directories.files / EACH) + nr);
}

OURS void make_one(unsigned long nr, unsigned long index)
{
	char path[PATH_MAX];

	directory_path(path, nr, index);
	make_directory(path);
}

OURS void remove_one_of_them(unsigned long nr, unsigned long index)
{
	char path[PATH_MAX];

	directory_path(path, nr, index);
	if (rmdir(path))
		die("filebench: rmdir");
}

#endif
