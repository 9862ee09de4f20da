// SPDX-License-Identifier: GPL-2.0-or-later
/* Each operation checks that its task, and the process that started it, are in the control group that the domain name says. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *testcase_description = "be in a control group";

static char wanted[128];

static void check(const char *path)
{
	char text[256] = "";
	int fd = open(path, O_RDONLY);

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0) {
		perror(path);
		exit(1);
	}
	close(fd);
	text[strcspn(text, "\n")] = 0;
	if (strcmp(text, wanted)) {
		fprintf(stderr, "%s is %s, not %s\n", path, text, wanted);
		exit(1);
	}
}

void testcase_prepare(unsigned long nr_tasks)
{
	char path[100];

	(void)nr_tasks;
	if (getdomainname(path, sizeof(path)))
		exit(1);
	snprintf(wanted, sizeof(wanted), "0::%s", path);
	check("/proc/self/cgroup");
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	(void)nr;

	while (1) {
		check("/proc/thread-self/cgroup");
		check("/proc/self/cgroup");
		(*iterations)++;
	}
}
