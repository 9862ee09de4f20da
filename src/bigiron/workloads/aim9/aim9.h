/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the system-call tests of AIM 7, AIM 9 and reaim have in common: all three have the same. */
#ifndef AIM9_H
#define AIM9_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define OURS __attribute__((unused)) static

static char folder[] = "/tmp/aim9.XXXXXX";

OURS void die(const char *what)
{
	perror(what);
	_exit(1);
}

OURS void make_folder(void)
{
	if (!mkdtemp(folder))
		die("aim9: mkdtemp");
}

/* A path in the folder, of the task's own. */
OURS void own_path(char path[PATH_MAX], unsigned long nr, unsigned long index)
{
	snprintf(path, PATH_MAX, "%s/%lu.%lu", folder, nr, index);
}

OURS int create_at(const char *path, int flags)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | flags, 0777);

	if (fd < 0)
		die("aim9: create");
	return fd;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status, (void)type, (void)walk;
	return remove(path);
}

OURS void remove_folder(void)
{
	if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS))
		die("aim9: remove");
}

#endif
