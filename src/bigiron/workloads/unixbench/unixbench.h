/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What UnixBench's tests have in common. A task is one of the copies that it runs at once. */
#ifndef UNIXBENCH_H
#define UNIXBENCH_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OURS __attribute__((unused)) static

OURS void die(const char *what)
{
	perror(what);
	_exit(1);
}

/* A file of the task's own that has no name any more. */
OURS int make_own_file(void)
{
	char path[] = "/tmp/unixbench.XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || unlink(path))
		die("unixbench: mkstemp");
	return fd;
}

#endif
