// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/report.h"

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

enum is_mount { NO, YES, UNKNOWN };

/* Which mount a folder is in; -1: not known. A file of /proc has it since Linux 3.15. */
static int mount_by_proc(const char *path)
{
	int folder = open(path, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC), mount = -1;
	char line[80];
	FILE *about;

	snprintf(line, sizeof(line), "/proc/self/fdinfo/%d", folder);
	about = folder < 0 ? NULL : fopen(line, "re");
	while (about && fgets(line, sizeof(line), about) && sscanf(line, "mnt_id: %d", &mount) != 1)
		;
	if (about)
		fclose(about);
	if (folder >= 0)
		close(folder);
	return mount;
}

/* The same. The kernel has the call since Linux 2.6.39, but not for each file system. */
static int mount_by_handle(const char *path)
{
	struct file_handle none = { .handle_bytes = 0 };
	int mount = -1;

	if (name_to_handle_at(AT_FDCWD, path, &none, &mount, 0) && errno != EOVERFLOW)
		return -1;
	return mount;
}

static enum is_mount differ(int (*mount_of)(const char *path), const char *path, const char *above)
{
	int one = mount_of(path), other = mount_of(above);

	return one < 0 || other < 0 ? UNKNOWN : one != other;
}

/* Also where the same file system is mounted once more, which FTS_XDEV does not see. Linux says so itself since 5.8. */
static enum is_mount is_mount(const char *path)
{
	struct statx status;
	char above[PATH_MAX];
	enum is_mount found;

	if (!statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &status) &&
	    status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT)
		return !!(status.stx_attributes & STATX_ATTR_MOUNT_ROOT);
	if (snprintf(above, sizeof(above), "%s/..", path) >= (int)sizeof(above))
		return UNKNOWN;
	found = differ(mount_by_handle, path, above);
	return found == UNKNOWN ? differ(mount_by_proc, path, above) : found;
}

/* Neither through a link nor past a mount, or what may be one. */
static void remove_all(char *path)
{
	char *const paths[] = { path, NULL };
	FTS *walk = is_ours(path) ? fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL) : NULL;

	for (FTSENT *each; walk && (each = fts_read(walk));) {
		if (each->fts_info != FTS_D)
			remove(each->fts_path);
		else if (is_mount(each->fts_path) != NO)
			fts_set(walk, each, FTS_SKIP);
	}
	if (walk)
		fts_close(walk);
}

static int is_folder(const char *path)
{
	struct stat status;

	return !lstat(path, &status) && S_ISDIR(status.st_mode);
}

/* Then it can be removed whatever is known of it. */
static int is_empty(const char *path)
{
	DIR *folder = opendir(path);
	int found = 0;

	while (folder && found < 3 && readdir(folder))
		found++;
	if (folder)
		closedir(folder);
	return found == 2; /* itself and the one above */
}

static int spare(char *path)
{
	if (!is_ours(path) || !is_folder(path) || is_mount(path) != UNKNOWN || is_empty(path))
		return 0;
	return report_error("machine", "%s is not removed: the kernel does not tell what is mounted in it", path);
}

static int remove_one(char *path)
{
	remove_all(path);
	return 0;
}

/* What came, after what the tasks have beside it: as long as it exists, what is named after it is theirs. */
static int for_all(unsigned long tasks, int (*apply)(char *path))
{
	char beside[PATH_MAX];
	int failed = 0;

	for (size_t i = 0; i < nr_names; i++) {
		for (unsigned long task = 0; task < tasks && is_ours(names[i]); task++) {
			snprintf(beside, sizeof(beside), "%s.%lu", names[i], task);
			failed |= apply(beside);
		}
		failed |= apply(names[i]);
	}
	return failed;
}

int temporary_spare(unsigned long tasks)
{
	return for_all(tasks, spare);
}

void temporary_remove(unsigned long tasks)
{
	for_all(tasks, remove_one);
}
