/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the tests of disks share: blocks of 1 KiB, and files of 1 MiB. The original writes a file, calls sync, then reads or
 * writes it; each call of the test does so. Here an operation is a block of the file, and a block of the one that is used
 * next, so that all operations are alike. At a file's end it is removed, and sync() is called where the original starts a
 * shell for that.
 */
#ifndef DISK_H
#define DISK_H

#include "aim9.h"

#define BLOCK 1024
#define BLOCKS 1024

struct disk {
	int fd, next; /* the file that is used, and the one that is written for later */
	int flags; /* with which a file is opened again */
	int syncs; /* calls of sync() for each file */
	unsigned long nr, files, blocks, chance;
};

static char block[BLOCK];

OURS void write_block(int fd)
{
	if (write(fd, block, BLOCK) != BLOCK)
		die("aim9: write");
}

OURS void read_block(int fd)
{
	char own[BLOCK];

	if (read(fd, own, BLOCK) != BLOCK)
		die("aim9: read");
}

OURS int make_whole_file(const char *path)
{
	int fd = create_at(path, 0);

	for (int blocks = 0; blocks < BLOCKS; blocks++)
		write_block(fd);
	return fd;
}

/* A number from 0 to 32767, as AIM's own generator makes them. */
OURS void seek_random(struct disk *disk, int fd)
{
	disk->chance = disk->chance * 1103515245 + 12345;
	if (lseek(fd, (disk->chance >> 16 & 0x7fff) % BLOCKS * BLOCK, SEEK_SET) < 0)
		die("aim9: lseek");
}

OURS struct disk begin_disk(unsigned long nr, int flags, int syncs)
{
	struct disk disk = { .flags = flags, .syncs = syncs, .nr = nr, .chance = 1 };
	char path[PATH_MAX];

	own_path(path, nr, 0);
	close(make_whole_file(path));
	disk.fd = open(path, flags);
	own_path(path, nr, 1);
	disk.next = create_at(path, 0);
	if (disk.fd < 0)
		die("aim9: open");
	return disk;
}

static void use_next_file(struct disk *disk)
{
	char path[PATH_MAX];

	close(disk->fd);
	own_path(path, disk->nr, disk->files % 2);
	if (unlink(path))
		die("aim9: unlink");
	close(disk->next);
	for (int syncs = 0; syncs < disk->syncs; syncs++)
		sync();
	disk->next = create_at(path, 0);
	own_path(path, disk->nr, ++disk->files % 2);
	disk->fd = open(path, disk->flags);
	if (disk->fd < 0)
		die("aim9: open");
}

/* After each operation. */
OURS void next_block(struct disk *disk)
{
	write_block(disk->next);
	if (++disk->blocks % BLOCKS == 0)
		use_next_file(disk);
}

/* The file that the copying tests read, all tasks the same. */
OURS void original_path(char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/original", folder);
}

OURS void make_original(void)
{
	char path[PATH_MAX];

	original_path(path);
	close(make_whole_file(path));
}

OURS int open_original(void)
{
	char path[PATH_MAX];
	int fd;

	original_path(path);
	fd = open(path, O_RDONLY);
	if (fd < 0)
		die("aim9: open");
	return fd;
}

#define NO_FILE -1

/* Write file after file, each block an operation, which is read first from the file `from` unless it is NO_FILE. */
OURS void __attribute__((noreturn))
write_files(unsigned long long *iterations, unsigned long nr, int flags, int syncs, int from)
{
	char path[PATH_MAX];

	own_path(path, nr, 0);
	for (;;) {
		int fd = create_at(path, flags);

		for (int blocks = 0; blocks < BLOCKS; blocks++) {
			if (from != NO_FILE)
				read_block(from);
			write_block(fd);
			(*iterations)++;
		}
		if (unlink(path) || close(fd) || (from != NO_FILE && lseek(from, 0, SEEK_SET)))
			die("aim9: unlink");
		for (int done = 0; done < syncs; done++)
			sync();
	}
}

#endif
