// SPDX-License-Identifier: GPL-2.0-or-later
/* As spin, and on the first CPU a shell runs ls: each leaves work for RCU, which all CPUs have a part in. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spin.h"

char *testcase_description = "compute as spin does, while a directory is listed five times per second";

#define FILES 32
#define PERIOD_US 200000

extern void new_task(void *(*func)(void *), void *arg);

static char folder[] = "/tmp/spin-ls.XXXXXX";

void testcase_prepare(unsigned long nr_tasks)
{
	char path[64];

	(void)nr_tasks;
	if (!mkdtemp(folder)) {
		perror("mkdtemp");
		exit(1);
	}
	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/file%d", folder, i);
		fclose(fopen(path, "w"));
	}
}

void testcase_cleanup(void)
{
	char path[64];

	for (int i = 0; i < FILES; i++) {
		snprintf(path, sizeof(path), "%s/file%d", folder, i);
		unlink(path);
	}
	rmdir(folder);
}

static void list(void)
{
	DIR *listed = opendir(folder);
	struct stat status;

	for (struct dirent *entry; listed && (entry = readdir(listed));)
		fstatat(dirfd(listed), entry->d_name, &status, 0);
}

static void *shell(void *unused)
{
	for (;;) {
		pid_t pid = fork();

		if (!pid) {
			prctl(PR_SET_NAME, "ls");
			list();
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		usleep(PERIOD_US);
	}
	return unused;
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	if (!nr)
		new_task(shell, NULL);
	spin(iterations);
}
