// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hotplug.h"
#include "report.h"
#include "settings.h"
#include "tasks.h"

static pid_t guard;
static int life[2]; /* nobody writes: reading ends when all who could have ended */

static void guard_main(void)
{
	char byte;
	int failed;

	setsid();
	close(life[1]);
	for (int signal = 1; signal < NSIG; signal++)
		sigaction(signal, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
	while (read(life[0], &byte, 1) < 0 && errno == EINTR)
		;
	failed = hotplug_restore();
	_exit(restore_settings() || failed);
}

int guard_begin(const struct job *job)
{
	hotplug_remember();
	if (remember_settings(job))
		return 1;
	if (pipe2(life, O_CLOEXEC))
		return report_error("machine", "cannot guard what the machine's settings are: %m");
	guard = fork();
	if (guard < 0)
		return report_error("machine", "cannot guard what the machine's settings are: %m");
	if (!guard)
		guard_main();
	close(life[0]);
	return 0;
}

int guard_end(void)
{
	int status;

	if (!guard)
		return 0;
	close(life[1]);
	return waitpid(guard, &status, 0) < 0 || status;
}
