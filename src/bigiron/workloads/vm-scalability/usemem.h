/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What vm-scalability's cases have in common. The original's program usemem touches each word of gigabytes, once, and ends.
 * Here a task touches each page of 16 MiB, drops them all, and touches them again; 16 pages are an operation. A case
 * defines WRITES, RANDOM (all pages in another order), and BYTES where it has other than 16 MiB.
 */
#ifndef USEMEM_H
#define USEMEM_H

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef WRITES
#define WRITES 0
#endif
#ifndef RANDOM
#define RANDOM 0
#endif

#define OURS __attribute__((unused)) static
#ifndef BYTES
#define BYTES (16UL << 20)
#endif
#define AT_ONCE 16
#define PIECE (64UL << 10)
#define HUGE_PAGE (2UL << 20)
#define TMPFS 0x01021994 /* linux/magic.h */

OURS void die(const char *what)
{
	perror(what);
	_exit(1);
}

static unsigned long page_bytes, pages; /* pages: a power of two, see touch() */

/* Before the tasks: none of their instructions asks for it. */
static void __attribute__((constructor)) use_the_kernel_s_pages(void)
{
	page_bytes = getpagesize();
	pages = BYTES / page_bytes;
}

/* An odd factor permutes the pages. */
OURS void touch(volatile char *memory, unsigned long nr)
{
	unsigned long page = (RANDOM ? nr * 0x9e3779b1 : nr) & (pages - 1);

	if (WRITES)
		memory[page * page_bytes] = 1;
	else
		memory[page * page_bytes];
}

OURS void touch_some(volatile char *memory, unsigned long first)
{
	for (unsigned long nr = first; nr < first + AT_ONCE; nr++)
		touch(memory, nr);
}

/* As usemem maps it; huge pages fit into it. */
OURS volatile char *map_zeros(int flags)
{
	int fd = open("/dev/zero", O_RDWR), protection = WRITES ? PROT_READ | PROT_WRITE : PROT_READ;
	char *room = mmap(NULL, BYTES + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *memory = (void *)(((uintptr_t)room + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));

	if (fd < 0 || room == MAP_FAILED || mmap(memory, BYTES, protection, MAP_PRIVATE | MAP_FIXED | flags, fd, 0) != memory)
		die("vm-scalability: mmap");
	close(fd);
	return memory;
}

OURS volatile char *map_file(int fd)
{
	int protection = WRITES ? PROT_READ | PROT_WRITE : PROT_READ;
	volatile char *memory = mmap(NULL, BYTES, protection, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		die("vm-scalability: mmap");
	return memory;
}

/* A file of holes without a name: nothing is left of it, whenever a task ends. */
OURS int make_sparse_file(const char *directory)
{
	int fd = open(directory, O_TMPFILE | O_RDWR, 0600);

	if (fd < 0 || ftruncate(fd, BYTES))
		die("vm-scalability: open with O_TMPFILE");
	return fd;
}

/* Where a read of a hole fills the page cache, and a write goes to a disk; on a tmpfs neither is so. */
OURS int make_file_on_disk(void)
{
	int fd = make_sparse_file("/tmp");
	struct statfs status;

	if (fstatfs(fd, &status))
		die("vm-scalability: statfs");
	if (status.f_type == TMPFS) {
		fputs("vm-scalability: /tmp is a tmpfs, and this is of files on disks: use --fs ext4\n", stderr);
		_exit(1);
	}
	return fd;
}

/* Its pages go, as when the original removes it. */
OURS void empty_file(int fd)
{
	if (ftruncate(fd, 0) || ftruncate(fd, BYTES))
		die("vm-scalability: ftruncate");
}

OURS void sync_pages(volatile char *memory)
{
	if (msync((void *)memory, BYTES, MS_SYNC))
		die("vm-scalability: msync");
}

OURS void unmap_pages(volatile char *memory)
{
	if (madvise((void *)memory, BYTES, MADV_DONTNEED))
		die("vm-scalability: MADV_DONTNEED");
}

/* The pages are dropped with the file's content, or from the task's page table alone if `fd` is NO_FILE. */
#define NO_FILE -1
OURS void __attribute__((noreturn)) use_memory(unsigned long long *iterations, volatile char *memory, int fd)
{
	for (unsigned long nr = 0;; nr += AT_ONCE) {
		if (nr == pages) {
			nr = 0;
			if (fd == NO_FILE)
				unmap_pages(memory);
			else
				empty_file(fd);
		}
		touch_some(memory, nr);
		(*iterations)++;
	}
}

/* Read the file in pieces, each so many times. A piece has half of the bytes that cp reads at once. */
OURS void __attribute__((noreturn)) read_file(unsigned long long *iterations, int fd, int times)
{
	static __thread char piece[PIECE];

	for (unsigned long at = 0;; at += PIECE) {
		if (at == BYTES) {
			at = 0;
			empty_file(fd);
		}
		for (int done = 0; done < times; done++)
			if (pread(fd, piece, PIECE, at) != PIECE)
				die("vm-scalability: pread");
		(*iterations)++;
	}
}

#endif
