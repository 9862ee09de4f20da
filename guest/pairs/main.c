// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Makes the system calls of tests that it reads (test_file.h), and prints their results: each test's first line, a line for
 * each call's result, an empty line.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "workers.h"

static const char usage[] = "usage: pairs FOLDER a-first|b-first < TESTS: FOLDER is where files are made\n";

static const struct test *test;

static void print_results(void)
{
	struct inodes inodes = { 0 };

	printf("test %s %s %s\n", test->id, test->label, test->two_processes ? "two" : "same");
	for (unsigned int i = 0; i < test->nr_calls; i++)
		result_print(&test->calls[i].call, workers_result(0, i), &inodes, stdout);
	putchar('\n');
}

/* The first two CPUs that this process may use, if there are two. */
static const int *two_cpus(void)
{
	static int cpus[2];
	cpu_set_t allowed;
	int known = 0;

	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		return NULL;
	for (int cpu = 0; cpu < CPU_SETSIZE && known < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			cpus[known++] = cpu;
	return known == 2 ? cpus : NULL;
}

static void on_failure(int cpu, const char *call, int signal)
{
	(void)cpu, (void)call;
	fprintf(stderr, "test %s: a process that makes calls was ended by signal %d\n", test->id, signal);
}

static int play(int b_first)
{
	unsigned int a = test->nr_calls - 2;

	if (workers_set_up(0))
		return 1;
	if (test_has_pair(test) && (workers_make(0, a + b_first, 0) || workers_make(0, a + !b_first, 0)))
		return 1;
	return workers_undo(0);
}

static int play_all(struct test *into, int b_first)
{
	struct test_file file = { .text = stdin, .checks_processes = 1 };
	char error[TEST_ERROR_BYTES];
	int read;

	test = into;
	while ((read = test_read(into, &file, error)) > 0) {
		if (play(b_first))
			return 3;
		print_results();
	}
	return read ? fprintf(stderr, "%s\n", error), 2 : 0;
}

int main(int argc, char **argv)
{
	const struct workers_config config = { .copies = 1, .cpus = two_cpus(), .failed = on_failure };
	char folder[32];
	struct test *shared;
	int status = 3;

	if (argc != 3 || (strcmp(argv[2], "a-first") && strcmp(argv[2], "b-first")))
		return fputs(usage, stderr), 2;
	if (chdir(argv[1]))
		return fprintf(stderr, "cannot work in %s: %s\n", argv[1], strerror(errno)), 2;
	snprintf(folder, sizeof(folder), "pairs.%d", getpid());
	if (mkdir(folder, 0700) || chdir(folder))
		return fprintf(stderr, "cannot make the folder %s: %s\n", folder, strerror(errno)), 3;
	shared = workers_start(&config);
	if (shared)
		status = play_all(shared, !strcmp(argv[2], "b-first"));
	else
		fprintf(stderr, "cannot start the processes that make calls: %s\n", strerror(errno));
	workers_stop();
	if ((chdir("..") || rmdir(folder)) && !status)
		fprintf(stderr, "cannot remove the folder %s: %s\n", folder, strerror(errno));
	return fflush(stdout) ? 3 : status;
}
