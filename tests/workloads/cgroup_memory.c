// SPDX-License-Identifier: GPL-2.0-or-later
/* All tasks charge their pages to one memory cgroup, a batch of 64 at a time. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

char *testcase_description = "touch and unmap pages of a memory cgroup";

#define CGROUP "/tmp/cgroup"
#define BYTES (256 * 4096)

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		perror(path);
		exit(1);
	}
	close(fd);
}

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	mkdir(CGROUP, 0755);
	if (mount("cgroup2", CGROUP, "cgroup2", 0, NULL)) {
		perror("mount");
		exit(1);
	}
	write_to(CGROUP "/cgroup.subtree_control", "+memory");
	mkdir(CGROUP "/tasks", 0755);
	write_to(CGROUP "/tasks/cgroup.procs", "0");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		char *pages = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (pages == MAP_FAILED) {
			perror("mmap");
			exit(1);
		}
		for (int i = 0; i < BYTES; i += 4096)
			pages[i] = 1;
		munmap(pages, BYTES);
		(*iterations)++;
	}
}
