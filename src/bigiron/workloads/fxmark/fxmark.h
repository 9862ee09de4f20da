/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the 19 microbenchmarks have in common, of which "Understanding Manycore Scalability of File Systems" (USENIX
 * ATC 2016) has the idea and the names: a folder on the file system, and blocks of 4 KiB. The first letter of a name says
 * data or metadata, the second read or write, the third what is done, the last whether tasks share nothing (L), a file
 * or folder (M), or the very block or name (H).
 */
#ifndef FXMARK_H
#define FXMARK_H

#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096
#define OFTEN 1024 /* operations for which files or blocks are made before the first one, and again when they are used up */
#define OURS __attribute__((unused)) static

/* Of workloads that go past the page cache: O_DIRECT. */
#ifndef DIRECT
#define DIRECT 0
#endif

static char folder[] = "/tmp/fxmark.XXXXXX";
static char block[BLOCK] __attribute__((aligned(BLOCK)));

OURS void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* In vain, where a file system has no way past the page cache. */
OURS int open_blocks(const char *path, int flags)
{
	int fd = open(path, O_RDWR | DIRECT | flags, 0600);

	if (fd < 0)
		die(DIRECT ? "fxmark: open with O_DIRECT" : "fxmark: open");
	/* Else a task writes from the page of zeros, whose reference count all tasks write. */
	if (DIRECT)
		memset(block, 'x', BLOCK);
	return fd;
}

OURS void read_block(int fd, unsigned long nr)
{
	char own[BLOCK] __attribute__((aligned(BLOCK)));

	if (pread(fd, own, BLOCK, nr * BLOCK) != BLOCK)
		die("fxmark: pread");
}

OURS void write_block(int fd, unsigned long nr)
{
	if (pwrite(fd, block, BLOCK, nr * BLOCK) != BLOCK)
		die("fxmark: pwrite");
}

OURS void make_folder(void)
{
	if (!mkdtemp(folder))
		die("fxmark: mkdtemp");
}

/* A path in the folder. */
OURS void path_of(char path[PATH_MAX], const char *format, ...) __attribute__((format(printf, 2, 3)));
OURS void path_of(char path[PATH_MAX], const char *format, ...)
{
	int length = snprintf(path, PATH_MAX, "%s/", folder);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(path + length, PATH_MAX - length, format, arguments);
	va_end(arguments);
}

OURS void make_directory(const char *path)
{
	if (mkdir(path, 0700))
		die("fxmark: mkdir");
}

OURS void make_shared_directory(void)
{
	char path[PATH_MAX];

	path_of(path, "shared");
	make_directory(path);
}

/* The directory of a task. */
OURS void make_own_directory(unsigned long nr)
{
	char path[PATH_MAX];

	path_of(path, "%lu", nr);
	make_directory(path);
}

OURS void create_file(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);

	if (fd < 0 || close(fd))
		die("fxmark: create");
}

/* A file of so many blocks, which have their place on the disk. */
OURS void write_blocks(int fd, unsigned long blocks)
{
	for (unsigned long nr = 0; nr < blocks; nr++)
		write_block(fd, nr);
	if (fsync(fd))
		die("fxmark: fsync");
}

OURS int make_file(const char *path, unsigned long blocks)
{
	int fd = open_blocks(path, O_CREAT | O_EXCL);

	write_blocks(fd, blocks);
	return fd;
}

OURS int open_own_file(unsigned long nr, unsigned long blocks)
{
	char path[PATH_MAX];

	path_of(path, "%lu", nr);
	return make_file(path, blocks);
}

OURS void make_shared_file(unsigned long blocks)
{
	char path[PATH_MAX];

	path_of(path, "shared");
	close(make_file(path, blocks));
}

/* Each task by itself: they share the inode, not the struct file. */
OURS int open_shared_file(void)
{
	char path[PATH_MAX];

	path_of(path, "shared");
	return open_blocks(path, 0);
}

/* Four directories in each other, and a file. */
OURS void make_deep_file(const char *top)
{
	char path[PATH_MAX];

	for (int depth = 0; depth < 4; depth++) {
		path_of(path, "%s%.*s", top, 2 * depth, "/0/0/0");
		make_directory(path);
	}
	path_of(path, "%s/0/0/0/0", top);
	create_file(path);
}

#define FILES 32 /* of a directory that is read */

OURS void make_files(const char *directory)
{
	char path[PATH_MAX];

	for (int file = 0; file < FILES; file++) {
		if (snprintf(path, sizeof(path), "%s/%d", directory, file) >= PATH_MAX)
			die("fxmark: path");
		create_file(path);
	}
}

OURS void read_directory(const char *path)
{
	DIR *directory = opendir(path);
	int entries = 0;

	if (!directory)
		die("fxmark: opendir");
	while (readdir(directory))
		entries++;
	if (entries != FILES + 2) /* itself, and what it is in */
		die("fxmark: readdir");
	closedir(directory);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status, (void)type, (void)walk;
	return remove(path);
}

void testcase_cleanup(void)
{
	if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS))
		die("fxmark: remove");
}

#endif
