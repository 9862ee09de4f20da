// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "temporary.h"

#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define MOST_TOLD 1024 /* by a process: where to make files is the operation, the guard is not to work beside it */

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

/* Also where the same file system is mounted once more. Linux says so since 5.8; before, FTS_XDEV sees the others. */
static int is_mount(const char *path)
{
	struct statx status;

	return !statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &status) &&
	       status.stx_attributes & status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT;
}

/* Neither through a link nor past a mount. */
static void remove_all(char *path)
{
	char *const paths[] = { path, NULL };
	FTS *walk = is_ours(path) ? fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL) : NULL;

	for (FTSENT *each; walk && (each = fts_read(walk));) {
		if (each->fts_info != FTS_D)
			remove(each->fts_path);
		else if (is_mount(each->fts_path))
			fts_set(walk, each, FTS_SKIP);
	}
	if (walk)
		fts_close(walk);
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
