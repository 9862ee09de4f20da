/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the personalities that only make files, or only remove them, share. A task has so many files of its own, in
 * directories that all tasks use.
 */
#ifndef NEW_FILES_H
#define NEW_FILES_H

#include "filebench.h"

#define EACH 1024

static struct set files = { .name = "bigfileset" };

OURS void make_parents(unsigned long nr_tasks, unsigned long width)
{
	make_folder();
	files.files = nr_tasks * EACH;
	files.width = width;
	make_directories(&files);
}

/* The tasks take turns in each directory. */
OURS void file_path(char path[PATH_MAX], unsigned long nr, unsigned long index)
{
	path_of(path, &files, index * (files.files / EACH) + nr);
}

OURS void make_file(unsigned long nr, unsigned long index, unsigned long size)
{
	char path[PATH_MAX];
	int fd;

	file_path(path, nr, index);
	fd = open(path, O_RDWR | O_CREAT, 0666);
	if (fd < 0)
		die("filebench: create");
	write_whole(fd, size);
	close(fd);
}

OURS void remove_file(unsigned long nr, unsigned long index)
{
	char path[PATH_MAX];

	file_path(path, nr, index);
	if (unlink(path))
		die("filebench: unlink");
}

/* There must be an end to them: a task that has made all its files removes them. */
OURS unsigned long with_room(unsigned long nr, unsigned long index)
{
	if (index < EACH)
		return index;
	while (index)
		remove_file(nr, --index);
	return 0;
}

#endif
