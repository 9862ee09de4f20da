// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "affinity.h"
#include "clock.h"
#include "job.h"
#include "measure.h"
#include "report.h"

#define MOST_OUTPUT_BYTES (2 << 20) /* of figures that a person reads */

static int parent_of(const char *pid)
{
	char path[280], text[512] = "", *end;
	FILE *file;
	int parent = -1;

	snprintf(path, sizeof(path), "/proc/%s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return -1; /* it has just ended */
	if (fgets(text, sizeof(text), file)) {
		end = strrchr(text, ')'); /* of its name, in which anything may be */
		if (end && sscanf(end, ") %*c %d", &parent) != 1)
			parent = -1;
	}
	fclose(file);
	return parent;
}

static void kill_children(void)
{
	DIR *all = opendir("/proc");
	struct dirent *process;

	while (all && (process = readdir(all)))
		if (atoi(process->d_name) > 0 && parent_of(process->d_name) == getpid())
			kill(atoi(process->d_name), SIGKILL);
	if (all)
		closedir(all);
}

/* The children of one that is killed become ours: until there is none. */
static void kill_descendants(void)
{
	do {
		kill_children();
	} while (waitpid(-1, NULL, 0) >= 0 || errno != ECHILD);
}

static int use_cpus(unsigned long wanted)
{
	struct cpus allowed;

	if (allowed_cpus(&allowed))
		return report_error("machine", "cannot tell which CPUs the command may use: %m");
	if (count_cpus(&allowed) < wanted)
		return report_error("machine", "%lu CPUs came up, not %lu", count_cpus(&allowed), wanted);
	if (!wanted)
		return 0;
	first_cpus(wanted, &allowed);
	if (allow_cpus(&allowed))
		return report_error("machine", "cannot pin the command to %lu CPUs: %m", wanted);
	return 0;
}

/* From now on orphans fall to this process, and signals say when its children and the agent end. */
static int become_subreaper(sigset_t *signals)
{
	pid_t agent = getppid();

	sigemptyset(signals);
	sigaddset(signals, SIGCHLD);
	sigaddset(signals, SIGTERM);
	if (sigprocmask(SIG_BLOCK, signals, NULL) || prctl(PR_SET_CHILD_SUBREAPER, 1) ||
	    prctl(PR_SET_PDEATHSIG, SIGTERM))
		return report_error("machine", "cannot keep the command's processes together: %m");
	if (getppid() != agent)
		_exit(1); /* it died before the kernel knew */
	return 0;
}

static int start(const struct job *job, const int *outputs, pid_t *command)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none;
	int error;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attributes);
	posix_spawn_file_actions_adddup2(&files, outputs[0], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, outputs[1], STDERR_FILENO);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
	setenv("LC_ALL", "C", 1); /* numbers with a point */
	error = posix_spawnp(command, job->words[0], &files, &attributes, job->words, environ);
	if (error)
		return report_error("workload", "cannot run %s: %s", job->words[0], strerror(error));
	return 0;
}

static int has_written_too_much(const int *outputs)
{
	struct stat status;

	for (int i = 0; i < 2; i++)
		if (!fstat(outputs[i], &status) && status.st_size > MOST_OUTPUT_BYTES)
			return 1;
	return 0;
}

/* Returns 0 with the command's status, or 1 after reporting the error. */
static int wait_for_end(const struct job *job, pid_t command, const sigset_t *signals, const int *outputs, int *status)
{
	uint64_t deadline = clock_ns() + job->patience_s * 1000000000ull;
	const struct timespec second = { .tv_sec = 1 };

	for (;;) {
		int ended, one;
		pid_t pid;

		if (sigtimedwait(signals, NULL, &second) == SIGTERM) {
			kill_descendants();
			_exit(1);
		}
		for (ended = 0; (pid = waitpid(-1, &one, WNOHANG)) > 0; ended |= pid == command)
			if (pid == command)
				*status = one;
		if (has_written_too_much(outputs))
			return report_error("workload", "the command has printed more than %d MiB",
					    MOST_OUTPUT_BYTES >> 20);
		if (ended)
			return 0;
		if (clock_ns() > deadline)
			return report_error("workload", "the command was not done in %lu s: see --deadline",
					    job->patience_s);
	}
}

static void report_output(const char *name, int fd)
{
	FILE *file = fdopen(fd, "r");

	if (!file)
		return;
	rewind(file);
	report_lines(name, file);
	fclose(file);
}

int run_command(const struct job *job)
{
	int outputs[2] = { memfd_create("stdout", MFD_CLOEXEC), memfd_create("stderr", MFD_CLOEXEC) };
	uint64_t begin, nanoseconds;
	int failed, status = 0;
	sigset_t signals;
	pid_t command;

	if (outputs[0] < 0 || outputs[1] < 0) {
		report_error("machine", "cannot keep what the command prints: %m");
		return MEASURE_REPORTED;
	}
	if (become_subreaper(&signals) || use_cpus(job->cpus))
		return MEASURE_REPORTED;
	report_stage("command");
	begin = clock_ns();
	if (start(job, outputs, &command))
		return MEASURE_REPORTED;
	failed = wait_for_end(job, command, &signals, outputs, &status);
	nanoseconds = clock_ns() - begin;
	kill_descendants();
	if (failed)
		return MEASURE_REPORTED;
	report_output("stdout", outputs[0]);
	report_output("stderr", outputs[1]);
	report_command(nanoseconds, status);
	return MEASURED;
}
