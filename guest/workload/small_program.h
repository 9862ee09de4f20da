/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For workloads that execute a program: a guest has none but the agent, so it is a copy of the agent, which exits before
 * main() if it is told to. It is linked statically, so there is no dynamic linker at work.
 */
#ifndef SMALL_PROGRAM_H
#define SMALL_PROGRAM_H

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_AT_ONCE "exit-at-once"

static inline void __attribute__((constructor)) exit_if_told(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], EXIT_AT_ONCE))
		_exit(0);
}

/* Write it to a new file, named as by mkstemp(). Returns 0, or -1 with errno set. */
static inline int make_small_program(char *template)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to = mkstemp(template);
	struct stat status;
	off_t done = 0;

	if (from < 0 || to < 0 || fchmod(to, 0700) || fstat(from, &status))
		return -1;
	while (done < status.st_size)
		if (sendfile(to, from, &done, status.st_size - done) <= 0)
			return -1;
	return close(from) || close(to) ? -1 : 0;
}

/* In a new process, by fork() and execl(), and wait for its end. Returns 0, or another value if it failed. */
static inline int run_small_program(const char *path)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		execl(path, path, EXIT_AT_ONCE, NULL);
		_exit(1);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

#endif
