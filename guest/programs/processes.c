// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/affinity.h"
#include "machine/root_folder.h"
#include "protocol/job.h"
#include "protocol/report.h"

#define MOST_FILES (1 << 20) /* fs.nr_open's default */
#define PATHS "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

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

/* The children of one that is killed become ours. */
void kill_descendants(void)
{
	do {
		kill_children();
	} while (waitpid(-1, NULL, 0) >= 0 || errno != ECHILD);
}

int become_subreaper(sigset_t *signals)
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

/* A user of the root file system, from its /etc/passwd. */
struct user {
	unsigned int uid, gid;
	char home[256];
};

/* NAME:x:UID:GID:...:HOME:... */
static int read_user(char *line, const char *name, struct user *user)
{
	char *fields[6];

	for (int i = 0; i < 6; i++) {
		fields[i] = strsep(&line, ":");
		if (!fields[i])
			return 1;
	}
	user->uid = strtoul(fields[2], NULL, 10);
	user->gid = strtoul(fields[3], NULL, 10);
	snprintf(user->home, sizeof(user->home), "%s", fields[5]);
	return strcmp(fields[0], name) || !*fields[2] || !*fields[3];
}

static int find_user(const char *name, struct user *user)
{
	FILE *all = fopen("/etc/passwd", "re");
	char line[1024];
	int found = 0;

	while (all && !found && fgets(line, sizeof(line), all))
		found = !read_user(line, name, user);
	if (all)
		fclose(all);
	return !found;
}

/* What went wrong in the child, for the parent to report: it ends when the program is executed. */
static int failure;

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vdprintf(failure, format, args);
	va_end(args);
	_exit(127);
}

/* As a service of a server has them. */
static void raise_limits(void)
{
	static const struct {
		int resource;
		rlim_t most;
	} limits[] = {
		{ RLIMIT_NOFILE, MOST_FILES }, { RLIMIT_MEMLOCK, RLIM_INFINITY }, { RLIMIT_NPROC, RLIM_INFINITY },
		{ RLIMIT_CORE, 0 },
	};

	for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++)
		setrlimit(limits[i].resource, &(struct rlimit){ limits[i].most, limits[i].most });
}

static void use_user(const struct job *job)
{
	struct user user = { .home = "/root" };
	char *const name = job->user ? job->user : "root";

	if (job->user && find_user(name, &user))
		fail("the root has no user %s in /etc/passwd", name);
	if (setgroups(0, NULL) || setgid(user.gid) || setuid(user.uid))
		fail("cannot run as %s: %m", name);
	setenv("HOME", user.home, 1);
	setenv("USER", name, 1);
	setenv("LOGNAME", name, 1);
}

static void enter_root(const struct job *job)
{
	int nothing;

	if (chroot(ROOT_FOLDER) || chdir("/"))
		fail("cannot enter the root file system: %m");
	if (job->folder && chdir(job->folder))
		fail("cannot work in %s: %m", job->folder);
	nothing = open("/dev/null", O_RDONLY);
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0)
		fail("cannot open /dev/null: %m");
	close(nothing);
	raise_limits();
	clearenv();
	putenv(PATHS);
	use_user(job);
}

static void use_cpus(const char *list)
{
	struct cpus cpus;

	if (list && (read_cpus(list, &cpus) || allow_cpus(&cpus)))
		fail("cannot run on CPUs %s: %m", list);
}

static void __attribute__((noreturn)) execute(const struct job *job, const struct program *program)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	use_cpus(program->cpus);
	if (dup2(program->outputs[0], STDOUT_FILENO) < 0 || dup2(program->outputs[1], STDERR_FILENO) < 0)
		fail("cannot keep what %s prints: %m", program->words->all[0]);
	if (job->in_root)
		enter_root(job);
	setenv("LC_ALL", "C", 1); /* numbers with a point */
	for (unsigned long i = 0; i < job->nr_variables; i++)
		putenv(job->variables[i]);
	if (program->before)
		program->before();
	execvp(program->words->all[0], program->words->all);
	fail("cannot run %s: %m", program->words->all[0]);
}

#define MARK "/bigiron-mark"
#define MARK_FOLDER ROOT_FOLDER "/usr/local/bin"

int install_mark(void)
{
	int from = open(MARK, O_RDONLY | O_CLOEXEC), to;
	struct stat status;

	mkdir(ROOT_FOLDER "/usr", 0755);
	mkdir(ROOT_FOLDER "/usr/local", 0755);
	mkdir(MARK_FOLDER, 0755);
	to = open(MARK_FOLDER MARK, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0755);
	if (from < 0 || to < 0 || fstat(from, &status) || sendfile(to, from, NULL, status.st_size) != status.st_size)
		return report_error("machine", "cannot put bigiron-mark into the root file system: %m");
	close(from);
	close(to);
	return 0;
}

pid_t start_program(const struct job *job, const struct program *program)
{
	char error[256];
	ssize_t length;
	int ends[2];
	pid_t child;

	if (pipe2(ends, O_CLOEXEC)) {
		report_error("machine", "cannot start a program: %m");
		return -1;
	}
	child = fork();
	if (!child) {
		failure = ends[1];
		execute(job, program);
	}
	close(ends[1]);
	length = child < 0 ? snprintf(error, sizeof(error), "cannot fork: %m") : read(ends[0], error, sizeof(error));
	close(ends[0]);
	if (length <= 0)
		return child;
	if (child > 0)
		waitpid(child, NULL, 0);
	report_error("workload", "%.*s", (int)length, error);
	return -1;
}
