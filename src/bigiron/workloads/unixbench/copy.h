/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What fstime, fsbuffer and fsdisk share: one program with other sizes, whose task has two files of its own. It writes one
 * over and over, reads one, or copies one to the other, with read() and write() of BLOCK bytes.
 */
#ifndef COPY_H
#define COPY_H

#include "unixbench.h"

static char block[BLOCK];

OURS void write_block(int fd)
{
	if (write(fd, block, BLOCK) != BLOCK)
		die("unixbench: write");
}

/* At the end: from the beginning again. */
OURS void rewind_file(int fd)
{
	if (lseek(fd, 0, SEEK_SET))
		die("unixbench: lseek");
}

OURS int make_file(void)
{
	int fd = make_own_file();

	for (int blocks = 0; blocks < BLOCKS; blocks++)
		write_block(fd);
	rewind_file(fd);
	return fd;
}

/* Whether there was one; else the file is at its end. */
OURS int read_block(int fd)
{
	char own[BLOCK];
	ssize_t some = read(fd, own, BLOCK);

	if (some && some != BLOCK)
		die("unixbench: read");
	return some > 0;
}

#endif
