/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What filebench's personalities have in common. All tasks use one set of files. Each step takes the set's next file that
 * exists, or that does not. Whole files are read and written in pieces of 64 KiB, where the original has 1 MiB; appends
 * are of random length. Where the original draws the size of a file, here all have the mean. A lock of the original's own
 * is a few atomic operations here.
 */
#ifndef FILEBENCH_H
#define FILEBENCH_H

#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define OURS __attribute__((unused)) static
#define KIB 1024UL
#define MIB (1024 * KIB)
#define IO (64 * KIB) /* most bytes of a system call, 1 MiB in the original */

/* Of a file: MISSING, BUSY while it is created or removed, else by how many tasks it is open, and one. */
enum { BUSY = -1, MISSING, IDLE };

struct set {
	const char *name;
	unsigned long width; /* entries in a directory; 0: all files are in one */
	unsigned long files;
	int *states; /* all tasks' */
	unsigned long *next; /* all tasks' */
};

struct file {
	int fd;
	unsigned long nr;
};

static char folder[] = "/tmp/filebench.XXXXXX";
static __thread char *buffer; /* of IO bytes */
static __thread unsigned long random_state;

OURS void die(const char *what)
{
	perror(what);
	_exit(1);
}

OURS void *map_shared(size_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		die("filebench: mmap");
	return memory;
}

OURS void make_folder(void)
{
	if (!mkdtemp(folder))
		die("filebench: mkdtemp");
}

/* What each task does first. */
OURS void begin_task(unsigned long nr)
{
	buffer = aligned_alloc(4 * KIB, IO);
	if (!buffer)
		die("filebench: aligned_alloc");
	memset(buffer, 'x', IO);
	random_state = (2 * nr + 1) * 0x9e3779b97f4a7c15;
}

/* Marsaglia's xorshift. */
OURS unsigned long random_below(unsigned long limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (random_state >> 16) % limit;
}

OURS void make_directory(const char *path)
{
	if (mkdir(path, 0755))
		die("filebench: mkdir");
}

OURS void path_of(char path[PATH_MAX], const struct set *set, unsigned long nr)
{
	unsigned long width = set->width;

	if (!width)
		snprintf(path, PATH_MAX, "%s/%s/%08lu", folder, set->name, nr);
	else
		snprintf(path, PATH_MAX, "%s/%s/%08lu/%08lu/%08lu", folder, set->name, nr / width / width,
			 nr / width % width, nr % width);
}

/* The directory in which a file is; 0: that in which the directory is. */
OURS void parent_of(char path[PATH_MAX], const struct set *set, unsigned long nr, int depth)
{
	path_of(path, set, nr);
	for (int level = 2; level > depth; level--)
		*strrchr(path, '/') = 0;
}

OURS void make_directories(const struct set *set)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", folder, set->name);
	make_directory(path);
	for (unsigned long nr = 0; set->width && nr < set->files; nr += set->width) {
		parent_of(path, set, nr, 0);
		if (nr % (set->width * set->width) == 0)
			make_directory(path);
		parent_of(path, set, nr, 1);
		make_directory(path);
	}
}

OURS void write_whole(int fd, unsigned long size)
{
	for (unsigned long some; size; size -= some) {
		some = size < IO ? size : IO;
		if (write(fd, buffer, some) != (ssize_t)some)
			die("filebench: write");
	}
}

/* Of ten files so many exist, each of `size` bytes. */
OURS void make_set(struct set *set, unsigned long files, unsigned int of_ten, unsigned long size)
{
	char path[PATH_MAX];

	set->files = files;
	set->states = map_shared(files * sizeof(*set->states));
	set->next = map_shared(sizeof(*set->next));
	make_directories(set);
	begin_task(0);
	for (unsigned long nr = 0; nr < files; nr++) {
		int fd;

		if (nr % 10 >= of_ten)
			continue;
		path_of(path, set, nr);
		fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
		if (fd < 0)
			die("filebench: create");
		write_whole(fd, size);
		close(fd);
		set->states[nr] = IDLE;
	}
	free(buffer);
}

/* The state that a task gives to a file, which it picks if that is another one. */
OURS int opened(int state)
{
	return state >= IDLE ? state + 1 : state;
}

OURS int removed(int state)
{
	return state == IDLE ? BUSY : state;
}

OURS int created(int state)
{
	return state == MISSING ? BUSY : state;
}

OURS unsigned long pick(const struct set *set, int (*becomes)(int state))
{
	for (;;) {
		unsigned long nr = __atomic_fetch_add(set->next, 1, __ATOMIC_RELAXED) % set->files;
		int *state = &set->states[nr], old = __atomic_load_n(state, __ATOMIC_RELAXED), new = becomes(old);

		if (new != old &&
		    __atomic_compare_exchange_n(state, &old, new, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return nr;
	}
}

OURS void set_state(const struct set *set, unsigned long nr, int state)
{
	__atomic_store_n(&set->states[nr], state, __ATOMIC_RELEASE);
}

OURS void leave(const struct set *set, unsigned long nr)
{
	__atomic_sub_fetch(&set->states[nr], 1, __ATOMIC_RELEASE);
}

OURS struct file open_file(const struct set *set, int flags)
{
	struct file file = { .nr = pick(set, opened) };
	char path[PATH_MAX];

	path_of(path, set, file.nr);
	file.fd = open(path, flags);
	if (file.fd < 0)
		die("filebench: open");
	return file;
}

OURS struct file create_file(const struct set *set)
{
	struct file file = { .nr = pick(set, created) };
	char path[PATH_MAX];

	path_of(path, set, file.nr);
	file.fd = open(path, O_RDWR | O_CREAT, 0666);
	if (file.fd < 0)
		die("filebench: create");
	set_state(set, file.nr, IDLE + 1);
	return file;
}

OURS void close_file(const struct set *set, struct file file)
{
	if (close(file.fd))
		die("filebench: close");
	leave(set, file.nr);
}

OURS void delete_file(const struct set *set)
{
	unsigned long nr = pick(set, removed);
	char path[PATH_MAX];

	path_of(path, set, nr);
	if (unlink(path))
		die("filebench: unlink");
	set_state(set, nr, MISSING);
}

OURS void stat_file(const struct set *set)
{
	unsigned long nr = pick(set, opened);
	struct stat status;
	char path[PATH_MAX];

	path_of(path, set, nr);
	if (stat(path, &status))
		die("filebench: stat");
	leave(set, nr);
}

OURS void append(int fd, unsigned long size)
{
	if (lseek(fd, 0, SEEK_END) < 0 || write(fd, buffer, size) != (ssize_t)size)
		die("filebench: append");
}

OURS void append_random(int fd, unsigned long most)
{
	append(fd, 1 + random_below(most));
}

OURS void read_whole(int fd)
{
	ssize_t some;

	if (lseek(fd, 0, SEEK_SET))
		die("filebench: lseek");
	do {
		some = read(fd, buffer, IO);
	} while (some > 0);
	if (some < 0)
		die("filebench: read");
}

OURS void sync_file(int fd)
{
	if (fsync(fd))
		die("filebench: fsync");
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
	(void)status, (void)type, (void)walk;
	return remove(path);
}

void testcase_cleanup(void)
{
	if (nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS))
		die("filebench: remove");
}

#endif
