// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "machine_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "protocol/report.h"

/* Every user can open it, and nothing needs to be created, nor is left. */
#define PLACE "/sys/devices/system/cpu"
#define LOOK_MS 200

static int lock = -1;

/* Which process has the lock; 0: not known here. */
static int holder(void)
{
	FILE *all = fopen("/proc/locks", "re");
	unsigned int major, minor;
	unsigned long inode;
	struct stat place;
	char line[256];
	int pid, found = 0;

	while (all && !found && !fstat(lock, &place) && fgets(line, sizeof(line), all))
		if (sscanf(line, "%*d: FLOCK %*s %*s %d %x:%x:%lu", &pid, &major, &minor, &inode) == 4 &&
		    inode == place.st_ino && makedev(major, minor) == place.st_dev)
			found = pid;
	if (all)
		fclose(all);
	return found && kill(found, 0) && errno == ESRCH ? 0 : found;
}

void lock_machine(void)
{
	int waits = 0;

	lock = open(PLACE, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB)) {
		struct pollfd input = { .fd = STDIN_FILENO, .events = POLLRDHUP };

		if (errno != EWOULDBLOCK)
			return;
		if (!waits++)
			report_waiting(holder());
		if (poll(&input, 1, LOOK_MS) > 0)
			_exit(1);
	}
}

void leave_machine_lock(void)
{
	if (lock >= 0)
		close(lock);
}
