/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the personalities with one large file share: all tasks use the same, each with a struct file of its own. */
#ifndef LARGE_FILE_H
#define LARGE_FILE_H

#include "filebench.h"

#define LARGE (16 * MIB) /* what a file of 1 or 5 GiB becomes */
#define LONGEST (64 * MIB) /* a file that grows is truncated at this length */

OURS int open_large_file(int flags)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/largefile", folder);
	fd = open(path, flags, 0666);
	if (fd < 0)
		die("filebench: open");
	return fd;
}

OURS void make_large_file(unsigned long size)
{
	int fd;

	make_folder();
	fd = open_large_file(O_RDWR | O_CREAT | O_EXCL);
	begin_task(0);
	write_whole(fd, size);
	free(buffer);
	close(fd);
}

OURS off_t random_place(unsigned long size)
{
	return random_below(LARGE / size) * size;
}

OURS void read_random(int fd, unsigned long size)
{
	if (pread(fd, buffer, size, random_place(size)) != (ssize_t)size)
		die("filebench: pread");
}

OURS void write_random(int fd, unsigned long size)
{
	if (pwrite(fd, buffer, size, random_place(size)) != (ssize_t)size)
		die("filebench: pwrite");
}

/* The next piece; after the last one the first. */
OURS void read_next(int fd)
{
	ssize_t some = read(fd, buffer, IO);

	if (!some && !lseek(fd, 0, SEEK_SET))
		some = read(fd, buffer, IO);
	if (some <= 0)
		die("filebench: read");
}

OURS void append_within(int fd, unsigned long size)
{
	if (lseek(fd, 0, SEEK_CUR) > (off_t)LONGEST && ftruncate(fd, 0))
		die("filebench: ftruncate");
	append(fd, size);
}

#endif
