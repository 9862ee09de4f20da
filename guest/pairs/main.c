// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Makes the system calls of tests that it reads, and prints what each gave:
 *
 *	test 17 open/unlink two
 *	0 open a creat -> 3
 *	A 0 open b creat,excl -> 4
 *	B 1 unlink a -> 0
 *
 * A test ends at an empty line. Printed are the test's first line, a line of each call's result, an empty line. A test
 * without A and B is only set up, to see what calls give.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workers.h"

static const char usage[] = "usage: pairs FOLDER a-first|b-first < TESTS: FOLDER is where files are made\n";

static unsigned long line_nr;

static int complain(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	fprintf(stderr, "line %lu: ", line_nr);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
	va_end(arguments);
	return -1;
}

/* Without its line break. Returns 0 at the end of the text. */
static int read_line(char *line, size_t bytes)
{
	if (!fgets(line, bytes, stdin))
		return 0;
	line_nr++;
	line[strcspn(line, "\n")] = 0;
	return 1;
}

static int read_header(struct test *test, const char *line)
{
	char kind[8], more;

	if (sscanf(line, "test %31s %63s %7s %c", test->id, test->label, kind, &more) != 3 ||
	    (strcmp(kind, "same") && strcmp(kind, "two")))
		return complain("a test begins with: test ID CALL/CALL same|two");
	test->same = !strcmp(kind, "same");
	test->nr_calls = 0;
	return 0;
}

/* A and B come last, or not at all; in one process there is no other. */
static int check_order(const struct test *test, const struct call *call)
{
	enum call_role before = test->nr_calls ? test->calls[test->nr_calls - 1].role : ROLE_SET_UP;

	if (before == ROLE_B || (before == ROLE_A) != (call->role == ROLE_B))
		return complain("the last two calls of a test are A and B, in this order");
	if (call->kind >= CALL_DUP && call->role != ROLE_SET_UP)
		return complain("this call is for setting up only");
	if (test->same && (call->process || call->kind == CALL_RECEIVE))
		return complain("a test of the same process has no other one");
	return 0;
}

/* Returns 1, 0 at the end of the text, -1 after saying what is wrong. */
static int read_test(struct test *test)
{
	char line[256], error[CALL_ERROR_BYTES];

	do {
		if (!read_line(line, sizeof(line)))
			return 0;
	} while (!*line);
	if (read_header(test, line))
		return -1;
	while (read_line(line, sizeof(line)) && *line) {
		struct call *call = &test->calls[test->nr_calls];

		if (test->nr_calls == MOST_CALLS)
			return complain("a test has at most %d calls", MOST_CALLS);
		if (call_read(call, line, error))
			return complain("%s", error);
		if (check_order(test, call))
			return -1;
		test->nr_calls++;
	}
	if (test->nr_calls && test->calls[test->nr_calls - 1].role == ROLE_A)
		return complain("a test that has a call A has a call B");
	return 1;
}

static void print_results(const struct test *test)
{
	struct inodes inodes = { 0 };

	printf("test %s %s %s\n", test->id, test->label, test->same ? "same" : "two");
	for (int i = 0; i < test->nr_calls; i++)
		result_print(&test->calls[i], &test->results[i], &inodes, stdout);
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

static int play_all(struct test *test, int b_first)
{
	char error[CALL_ERROR_BYTES];
	int read;

	while ((read = read_test(test)) > 0) {
		if (workers_play(test, b_first, error)) {
			fprintf(stderr, "test %s: %s\n", test->id, error);
			return 3;
		}
		print_results(test);
	}
	return read ? 2 : 0;
}

int main(int argc, char **argv)
{
	struct test *test;
	int status;

	if (argc != 3 || (strcmp(argv[2], "a-first") && strcmp(argv[2], "b-first")))
		return fputs(usage, stderr), 2;
	if (chdir(argv[1]))
		return fprintf(stderr, "cannot work in %s: %s\n", argv[1], strerror(errno)), 2;
	test = workers_start(two_cpus());
	if (!test)
		return fprintf(stderr, "cannot start the processes that make calls: %s\n", strerror(errno)), 3;
	status = play_all(test, !strcmp(argv[2], "b-first"));
	workers_stop();
	return fflush(stdout) ? 3 : status;
}
