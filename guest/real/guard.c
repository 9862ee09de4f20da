// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "guard.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/settings.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "real/machine_lock.h"
#include "real/temporary.h"
#include "tasks/tasks.h"
#include "tracing/tracing.h"
#include "workload/hotplug.h"

static pid_t guard;
static int life[2]; /* names of temporary files, until all processes that could tell of one have ended */

/* Nothing is ever written to it; it is read until its end. */
static int stdin_has_ended(const struct pollfd *fd)
{
	char bytes[64];

	return fd->revents && read(fd->fd, bytes, sizeof(bytes)) <= 0;
}

static int life_has_ended(const struct pollfd *fd)
{
	char name[PATH_MAX];
	ssize_t length = fd->revents ? read(fd->fd, name, sizeof(name)) : 0;

	if (length > 0)
		temporary_take(name, length);
	return fd->revents && length <= 0;
}

static int has_other_side(int fd)
{
	struct stat status;

	return !fstat(fd, &status) && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

/* Wait until the agent has ended, and end it at the end of its standard input: nothing reads its output any more. */
static void watch_over(pid_t agent)
{
	struct pollfd ends[] = { { life[0], POLLIN, 0 }, { has_other_side(STDIN_FILENO) ? STDIN_FILENO : -1, POLLIN, 0 } };

	for (;;) {
		if (poll(ends, 2, -1) < 0)
			continue;
		if (life_has_ended(&ends[0]))
			return;
		if (stdin_has_ended(&ends[1])) {
			kill(agent, SIGKILL);
			ends[1].fd = -1;
		}
	}
}

/* All of it, also where a part fails. */
static int restore_all(void)
{
	return hotplug_restore() | tracing_restore() | restore_settings();
}

static void guard_main(const struct job *job, pid_t agent, const int *ready)
{
	int lost;

	setsid();
	close(life[1]);
	for (int signal = 1; signal < NSIG; signal++)
		sigaction(signal, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
	close(ready[0]);
	close(ready[1]);
	watch_over(agent);
	lost = restore_all();
	/* All is said: who waits for the end of the output need not wait for what is removed. */
	close(STDOUT_FILENO);
	close(STDERR_FILENO);
	temporary_remove(job->tasks);
	_exit(lost);
}

/* Until a signal to the agent's group no longer ends the guard: the pipe is never written, and the read ends. */
static void wait_until_ready(const int *ready)
{
	char byte;

	close(ready[1]);
	while (read(ready[0], &byte, 1) < 0 && errno == EINTR)
		;
	close(ready[0]);
}

/* The workload has no part in it. */
static int leave_stdin_to_guard(void)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
		return report_error("machine", "cannot open /dev/null: %m");
	close(nothing);
	return 0;
}

int guard_begin(const struct job *job)
{
	pid_t agent = getpid();
	int ready[2];

	hotplug_remember();
	if (tracing_remember(job) || remember_settings(job))
		return 1;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, life) || pipe2(ready, O_CLOEXEC))
		return report_error("machine", "cannot guard what the machine's settings are: %m");
	guard = fork();
	if (guard < 0)
		return report_error("machine", "cannot guard what the machine's settings are: %m");
	if (!guard)
		guard_main(job, agent, ready);
	close(life[0]);
	leave_machine_lock();
	temporary_tell(life[1]);
	wait_until_ready(ready);
	return leave_stdin_to_guard();
}

int guard_end(void)
{
	int status;

	if (!guard)
		return 0;
	close(life[1]);
	if (waitpid(guard, &status, 0) == guard && WIFEXITED(status))
		return status;
	/* It was killed, and has put nothing back. */
	return restore_all();
}
