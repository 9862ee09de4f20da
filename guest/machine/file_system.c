// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "file_system.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <syslog.h>
#include <unistd.h>

#include "protocol/job.h"
#include "protocol/recorder.h"
#include "protocol/report.h"
#include "root_folder.h"

#define PLACE "/tmp"
#define DISK "/dev/ram0"
#define CONTENT "/disk" /* src/bigiron/machines/file_system.py writes it */
#define AT_ONCE (1 << 20)

/* Of each piece of the disk's content, which follows. What is between pieces is zero, as the disk is. */
struct piece {
	uint64_t offset, length;
};

/* The end of the kernel's log, so that what it says from now on can be read: an errno seldom says why it refuses. */
static int open_log(void)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (log >= 0)
		lseek(log, 0, SEEK_END);
	return log;
}

/*
 * Its first error since then, else its first warning, after a colon. Of each record: "LEVEL,...;TEXT\n". Nothing, if
 * there is neither. What comes after the first error often says only that there was one.
 */
static const char *first_error(int log)
{
	unsigned int worst = LOG_WARNING + 1, level;
	static char reason[1024];
	char record[8192], *text; /* as long as the kernel's longest */
	ssize_t length;

	*reason = 0;
	while ((length = read(log, record, sizeof(record) - 1)) > 0 || (length < 0 && errno == EPIPE)) {
		if (length < 0)
			continue; /* some were overwritten */
		record[length] = 0;
		text = strchr(record, ';');
		if (!text || sscanf(record, "%u", &level) != 1 || level >= worst)
			continue;
		worst = level;
		text++;
		snprintf(reason, sizeof(reason), ": %.*s", (int)strcspn(text, "\n"), text);
	}
	return reason;
}

/* "FILE PARAMETERS" */
static int load_module(const char *module, int required)
{
	const char *parameters = strchrnul(module, ' ');
	char path[256];
	int fd, failed, error, log;

	snprintf(path, sizeof(path), "/%.*s", (int)(parameters - module), module);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return report_error("machine", "the module %s was not handed over: %m", path + 1);
	log = open_log();
	failed = syscall(SYS_finit_module, fd, *parameters ? parameters + 1 : "", 0) && errno != EEXIST;
	error = errno;
	if (failed && required)
		report_error("setting", "the kernel does not load the module %s: %s%s", path + 1, strerror(error),
			     first_error(log));
	close(log);
	close(fd);
	unlink(path);
	return failed && required;
}

/* "required FILE PARAMETERS" or "optional FILE" */
static int load_modules(const struct job *job)
{
	for (unsigned long i = 0; i < job->nr_modules; i++) {
		const char *how = job->modules[i], *module = strchr(how, ' ');

		if (!module)
			return report_error("job", "'%s' is not how a module is loaded, and its file", how);
		if (load_module(module + 1, *how == 'r'))
			return 1;
	}
	if (job->nr_modules && job->record)
		record_module_symbols();
	return 0;
}

static int has_room(int disk, unsigned long mib)
{
	uint64_t bytes = 0;

	if (ioctl(disk, BLKGETSIZE64, &bytes))
		return !report_error("machine", "cannot tell how large " DISK " is: %m");
	if (bytes >> 20 >= mib)
		return 1;
	return !report_error("setting", "the kernel's disk in memory has %" PRIu64 " MiB, not %lu: boot it with brd.rd_size=%lu",
			     bytes >> 20, mib, mib << 10);
}

static int copy_piece(int disk, FILE *content, struct piece piece)
{
	static char bytes[AT_ONCE];

	while (piece.length) {
		size_t some = piece.length < sizeof(bytes) ? piece.length : sizeof(bytes);

		if (fread(bytes, 1, some, content) != some || pwrite(disk, bytes, some, piece.offset) != (ssize_t)some)
			return 1;
		piece.offset += some;
		piece.length -= some;
	}
	return 0;
}

static int fill_disk(unsigned long mib)
{
	FILE *content = fopen(CONTENT, "re");
	int disk = open(DISK, O_RDWR | O_CLOEXEC), failed = 0;
	struct piece piece;

	if (disk < 0)
		return report_error("setting", "the kernel has no disk in memory, " DISK ": %m (CONFIG_BLK_DEV_RAM)");
	if (!content)
		return report_error("machine", "no content of a disk was handed over: %m");
	if (!has_room(disk, mib))
		return 1;
	while (!failed && fread(&piece, sizeof(piece), 1, content) == 1)
		failed = copy_piece(disk, content, piece);
	/* What is mounted reads the disk itself. */
	failed = failed || fsync(disk) || close(disk);
	fclose(content);
	unlink(CONTENT);
	return failed ? report_error("machine", "cannot write to " DISK ": %m") : 0;
}

static int is_known(const char *type)
{
	FILE *all = fopen("/proc/filesystems", "re");
	char line[128], *name;
	int known = 0;

	while (all && !known && fgets(line, sizeof(line), all)) {
		line[strcspn(line, "\n")] = 0;
		name = strchr(line, '\t');
		known = name && !strcmp(name + 1, type);
	}
	if (all)
		fclose(all);
	return known;
}

static int mount_disk(const struct job *job)
{
	const char *options = job->mount_options ? job->mount_options : "";
	int log = open_log(), failed, error;

	failed = mount(job->disk_mib ? DISK : job->file_system, PLACE, job->file_system, 0, options);
	error = errno;
	if (failed)
		report_error("setting", "the kernel does not mount %s%s%s: %s%s", job->file_system,
			     *options ? " with the options " : "", options, strerror(error), first_error(log));
	close(log);
	return failed;
}

static int show_to_programs(const struct job *job)
{
	if (!job->in_root)
		return 0;
	/* As /tmp is: programs may run as another user. A new file system's root is root's alone. */
	if (chmod(PLACE, 01777) && errno != EROFS)
		return report_error("machine", "cannot let all users write to " PLACE ": %m");
	if (mount(PLACE, ROOT_FOLDER PLACE, NULL, MS_BIND, NULL))
		return report_error("machine", "cannot mount " PLACE " in the root file system: %m");
	return 0;
}

int file_system_mount(const struct job *job)
{
	if (load_modules(job))
		return 1;
	if (!job->file_system)
		return 0;
	if (!is_known(job->file_system))
		return report_error("setting", "the kernel has no file system %s", job->file_system);
	if (job->disk_mib && fill_disk(job->disk_mib))
		return 1;
	if (mount_disk(job) || show_to_programs(job))
		return 1;
	if (chdir(PLACE))
		return report_error("machine", "cannot work in " PLACE ": %m");
	return 0;
}
