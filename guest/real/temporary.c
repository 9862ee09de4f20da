// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "temporary.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_TOLD 1024 /* by a process: where to make files is the operation, the guard is not to work beside it */
#define MOST_OPEN 16   /* folders at once */

static int told = -1;

static void tell(const char *path)
{
	static int times;

	/* Without SIGPIPE, should the guard have ended. It may work in another folder. */
	if (told >= 0 && *path == '/' && times++ < MOST_TOLD)
		send(told, path, strlen(path), MSG_NOSIGNAL);
}

int mkstemp_told(char *template)
{
	int fd = mkstemp(template);

	if (fd >= 0)
		tell(template);
	return fd;
}

char *mkdtemp_told(char *template)
{
	char *folder = mkdtemp(template);

	if (folder)
		tell(folder);
	return folder;
}

void temporary_tell(int socket)
{
	told = socket;
}

static char **names;
static size_t nr_names;

void temporary_take(const char *name, int length)
{
	char **more = realloc(names, (nr_names + 1) * sizeof(*names));

	if (!more)
		return;
	names = more;
	names[nr_names] = strndup(name, length);
	nr_names += !!names[nr_names];
}

static int is_ours(const char *path)
{
	struct stat status;

	return !lstat(path, &status) && status.st_uid == geteuid();
}

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)status;
	(void)kind;
	(void)place;
	remove(path);
	return 0;
}

/* Neither through a link nor past a mount. */
static void remove_all(const char *path)
{
	if (is_ours(path))
		nftw(path, remove_one, MOST_OPEN, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

void temporary_remove(unsigned long tasks)
{
	char beside[PATH_MAX];

	for (size_t i = 0; i < nr_names; i++) {
		/* As long as it exists, what is named after it is the tasks'. */
		for (unsigned long task = 0; task < tasks && is_ours(names[i]); task++) {
			snprintf(beside, sizeof(beside), "%s.%lu", names[i], task);
			remove_all(beside);
		}
		remove_all(names[i]);
	}
}
