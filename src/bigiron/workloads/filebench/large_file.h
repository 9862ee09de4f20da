/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the personalities with large files share: tasks use the same ones, each with a struct file of its own. */
#ifndef LARGE_FILE_H
#define LARGE_FILE_H

#include "filebench.h"

#define LARGE (16 * MIB) /* what a file of 1 or 5 GiB becomes */
#define LONGEST (64 * MIB) /* a file that grows is truncated at this length */
#define STREAMS 5
#define STREAM (4 * MIB) /* what a file of one of five streams becomes, which has 1 GiB */

/* Of personalities that go past the page cache: O_DIRECT. */
#ifndef DIRECT
#define DIRECT 0
#endif

/* In vain, where a file system has no way past the page cache. */
OURS int open_numbered_file(unsigned long file, int flags)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/largefile%lu", folder, file);
	fd = open(path, flags | DIRECT, 0666);
	if (fd < 0)
		die(DIRECT ? "filebench: open with O_DIRECT" : "filebench: open");
	return fd;
}

OURS void make_large_files(unsigned long files, unsigned long size)
{
	make_folder();
	begin_task(0);
	for (unsigned long file = 0; file < files; file++) {
		int fd = open_numbered_file(file, O_RDWR | O_CREAT | O_EXCL);

		write_whole(fd, size);
		close(fd);
	}
	free(buffer);
}

OURS int open_large_file(int flags)
{
	return open_numbered_file(0, flags);
}

OURS void make_large_file(unsigned long size)
{
	make_large_files(1, size);
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

/* Pieces of the file, again and again. */
OURS void __attribute__((noreturn)) read_stream(unsigned long long *iterations, int fd)
{
	while (1) {
		read_next(fd);
		(*iterations)++;
	}
}

/* Pieces from the start of the file on, until it is as long as it may become: then it has to grow again. */
OURS void __attribute__((noreturn)) write_stream(unsigned long long *iterations, int fd, unsigned long longest)
{
	for (unsigned long at = 0;; at += IO) {
		if (at == longest) {
			at = 0;
			if (ftruncate(fd, 0) || lseek(fd, 0, SEEK_SET))
				die("filebench: ftruncate");
		}
		write_whole(fd, IO);
		(*iterations)++;
	}
}

OURS void append_within(int fd, unsigned long size)
{
	if (lseek(fd, 0, SEEK_CUR) > (off_t)LONGEST && ftruncate(fd, 0))
		die("filebench: ftruncate");
	append(fd, size);
}

#endif
