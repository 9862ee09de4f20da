// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "guard.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/clock.h"
#include "machine/settings.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "real/machine_lock.h"
#include "real/temporary.h"
#include "tasks/tasks.h"
#include "tracing/tracing.h"
#include "workload/hotplug.h"

#ifndef PATIENCE_S /* shorter in tests */
#define PATIENCE_S 10 /* with what outlives the agent, and with file systems that do not answer */
#endif
#define LOOK_MS 100
#define LOOK_FOR_AGENT_MS 1000 /* seldom: the guard is not to work beside the tasks */
#define DONE "." /* from the agent, in place of a name, which begins with '/' */

static pid_t guard;
static int life[2]; /* names of temporary files, until all processes that could tell of one have ended */
static struct stat their_end; /* of life[1], which the guard closes */

/* Nothing is ever written to it; it is read until its end. */
static int stdin_has_ended(const struct pollfd *fd)
{
	char bytes[64];

	return fd->revents && read(fd->fd, bytes, sizeof(bytes)) <= 0;
}

static int life_has_ended(const struct pollfd *fd, int *agent_is_done)
{
	char name[PATH_MAX];
	ssize_t length = fd->revents ? read(fd->fd, name, sizeof(name)) : 0;

	if (length > 0 && *name == '/')
		temporary_take(name, length);
	else if (length > 0)
		*agent_is_done = 1;
	return fd->revents && length <= 0;
}

static int has_other_side(int fd)
{
	struct stat status;

	return !fstat(fd, &status) && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

/* Only a process that has not ended is a parent. */
static int has_ended(pid_t agent)
{
	return getppid() != agent;
}

/* By its file, if there is one: another process may have its number by now. */
static void end(pid_t agent, int file)
{
	if (file >= 0)
		syscall(SYS_pidfd_send_signal, file, SIGKILL, NULL, 0);
	else if (!has_ended(agent))
		kill(agent, SIGKILL);
}

/*
 * Wait until the agent has ended and all that it started, and end it at the end of its standard input: nothing reads its
 * output any more. Returns whether something has outlived it, for which there was no more patience: a workload's daemon,
 * or a task that no signal ends.
 */
static int watch_over(pid_t agent)
{
	int agent_file = syscall(SYS_pidfd_open, agent, 0); /* none before Linux 5.3 */
	struct pollfd ends[] = {
		{ life[0], POLLIN, 0 },
		{ has_other_side(STDIN_FILENO) ? STDIN_FILENO : -1, POLLIN, 0 },
		{ agent_file, POLLIN, 0 },
	};
	uint64_t deadline = 0;
	int done = 0;

	while (!deadline || clock_ns() < deadline) {
		if (poll(ends, 3, deadline ? LOOK_MS : agent_file < 0 ? LOOK_FOR_AGENT_MS : -1) < 0)
			continue;
		if (life_has_ended(&ends[0], &done))
			return 0;
		if (ends[2].revents || (agent_file < 0 && has_ended(agent))) {
			done = 1;
			ends[2].fd = -1;
		}
		if (stdin_has_ended(&ends[1])) {
			if (!done)
				end(agent, agent_file);
			done = 1;
			ends[1].fd = -1;
		}
		if (done && !deadline)
			deadline = clock_ns() + PATIENCE_S * 1000000000ull;
	}
	return 1;
}

/* The next of a folder's names that are numbers; 0 at the end. */
static int next_number(DIR *folder)
{
	struct dirent *entry;

	while (folder && (entry = readdir(folder)))
		if (atoi(entry->d_name) > 0)
			return atoi(entry->d_name);
	return 0;
}

/* One of its threads may have it where the first has ended: a file that was inherited has the same number everywhere. */
static int has_their_end(int pid)
{
	char path[80];
	DIR *threads;
	int found = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	threads = opendir(path);
	for (int thread; !found && (thread = next_number(threads));) {
		struct stat file;

		snprintf(path, sizeof(path), "/proc/%d/task/%d/fd/%d", pid, thread, life[1]);
		found = !stat(path, &file) && file.st_dev == their_end.st_dev && file.st_ino == their_end.st_ino;
	}
	if (threads)
		closedir(threads);
	return found;
}

/* Whether it was killed, and cannot end: what it does in the kernel it has still to finish. */
static int is_killed(int pid)
{
	unsigned long long signals;
	char line[256];
	int killed = 0;
	FILE *status;

	snprintf(line, sizeof(line), "/proc/%d/status", pid);
	status = fopen(line, "re");
	while (status && fgets(line, sizeof(line), status))
		if (sscanf(line, "SigPnd: %llx", &signals) == 1 || sscanf(line, "ShdPnd: %llx", &signals) == 1)
			killed |= signals >> (SIGKILL - 1) & 1;
	if (status)
		fclose(status);
	return killed;
}

/* A process that has outlived the agent, rather one that cannot end; 0: not known. */
static int who_remains(int *cannot_end)
{
	DIR *all = opendir("/proc");
	int pid, found = 0;

	*cannot_end = 0;
	while (!*cannot_end && (pid = next_number(all)))
		if (has_their_end(pid)) {
			found = pid;
			*cannot_end = is_killed(pid);
		}
	if (all)
		closedir(all);
	return found;
}

/*
 * Whether what remains may undo what was restored: by a write that is still under way, in the agent, which writes
 * settings, in its child, which traces, or in a command; or by the next one of a hotplug workload.
 */
static int may_change(const struct job *job, pid_t agent, int cannot_end)
{
	int traces = job->nr_functions || job->choose_functions || job->blocked || job->watch;

	return workload_is_bounded() || !hotplug_is_restored() || (!has_ended(agent) && is_killed(agent)) ||
	       (cannot_end && (traces || job->command.nr));
}

/* After all is restored. */
static int report_what_remains(const struct job *job, pid_t agent)
{
	int cannot_end, pid = who_remains(&cannot_end), lost = 0;
	char name[40] = "a process";

	if (pid)
		snprintf(name, sizeof(name), "process %d", pid);
	if (may_change(job, agent, cannot_end))
		lost = report_error("machine", "%s still runs, and may yet change settings and CPUs: check them when it has "
				    "ended", name);
	/* The last that is said of them. */
	report_remains(pid);
	return lost;
}

/* All of it, also where a part fails. */
static int restore_all(void)
{
	return hotplug_restore() | tracing_restore() | restore_settings();
}

static void *leave_lock_in_time(void *none)
{
	sleep(PATIENCE_S);
	leave_machine_lock();
	return none;
}

/* From now on only files are removed, which a file system that does not answer may keep from ever ending. */
static void limit_lock(int outlived)
{
	pthread_t thread;

	if (outlived || pthread_create(&thread, NULL, leave_lock_in_time, NULL))
		leave_machine_lock();
}

static void guard_main(const struct job *job, pid_t agent, const int *ready)
{
	int lost, outlived;

	setsid();
	fstat(life[1], &their_end);
	close(life[1]);
	for (int signal = 1; signal < NSIG; signal++)
		sigaction(signal, &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
	close(ready[0]);
	close(ready[1]);
	outlived = watch_over(agent);
	lost = restore_all();
	if (outlived)
		lost |= report_what_remains(job, agent);
	limit_lock(outlived);
	lost |= temporary_spare(job->tasks);
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
	send(life[1], DONE, 1, MSG_NOSIGNAL);
	close(life[1]);
	if (waitpid(guard, &status, 0) == guard && WIFEXITED(status))
		return status;
	/* It was killed, and has put nothing back. */
	return restore_all();
}
