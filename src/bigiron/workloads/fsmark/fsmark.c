// SPDX-License-Identifier: GPL-2.0-or-later
/* Inodes that are made, in the task's own directories; new pages; fsync: blocks of the disk, the journal or the log. */
/* As fs_mark.c with fsyncBeforeClose and files of 8 KiB. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char *testcase_description = "create, write, fsync and close a file of 8 KiB, 256 in each directory";

#ifndef SYNC
#define SYNC 1
#endif
#define FILE_BYTES 8192
#define PER_DIRECTORY 256
#define DIRECTORIES 4

static char folder[] = "/tmp/fsmark.XXXXXX";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

static void make_directory(const char *path)
{
	if (mkdir(path, 0777) && errno != EEXIST)
		die("fsmark: mkdir");
}

/* For each file its directory is made, too, which nearly always exists. The name has 40 bytes. */
static void make_file(unsigned long nr, unsigned long file)
{
	static const char zeros[FILE_BYTES] = { 1 }; /* not of the page of zeros */
	char directory[PATH_MAX], path[PATH_MAX + 64];
	int fd;

	snprintf(directory, sizeof(directory), "%s/%lu/%02lx", folder, nr, file / PER_DIRECTORY);
	make_directory(directory);
	snprintf(path, sizeof(path), "%s/%040lx", directory, file);
	fd = open(path, O_CREAT | O_RDWR | O_TRUNC, 0666);
	if (fd < 0 || write(fd, zeros, sizeof(zeros)) != sizeof(zeros))
		die("fsmark: create");
	if (SYNC && fsync(fd))
		die("fsmark: fsync");
	close(fd);
}

static void remove_files(unsigned long nr)
{
	char path[PATH_MAX];

	for (unsigned long file = 0; file < DIRECTORIES * PER_DIRECTORY; file++) {
		snprintf(path, sizeof(path), "%s/%lu/%02lx/%040lx", folder, nr, file / PER_DIRECTORY, file);
		if (unlink(path))
			die("fsmark: unlink");
	}
}

void testcase_prepare(unsigned long nr_tasks)
{
	char path[PATH_MAX];

	if (!mkdtemp(folder))
		die("fsmark: mkdtemp");
	for (unsigned long nr = 0; nr < nr_tasks; nr++) {
		snprintf(path, sizeof(path), "%s/%lu", folder, nr);
		make_directory(path);
	}
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	for (unsigned long file = 0;; file++) {
		if (file == DIRECTORIES * PER_DIRECTORY) {
			remove_files(nr);
			file = 0;
		}
		make_file(nr, file);
		(*iterations)++;
	}
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status, (void)type, (void)walk;
	return remove(path);
}

void testcase_cleanup(void)
{
	if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS))
		die("fsmark: remove");
}
