// SPDX-License-Identifier: GPL-2.0-or-later
#include "test_file.h"

#include <stdarg.h>
#include <string.h>

#define LINE_BYTES 512

static int __attribute__((format(printf, 3, 4))) wrong(const struct test_file *file, char *error, const char *format, ...)
{
	int length = snprintf(error, TEST_ERROR_BYTES, "line %lu: ", file->line_nr);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(error + length, TEST_ERROR_BYTES - length, format, arguments);
	va_end(arguments);
	return -1;
}

/* Without its line break. Returns 0 at the end of the text. */
static int read_line(struct test_file *file, char line[LINE_BYTES])
{
	if (!fgets(line, LINE_BYTES, file->text))
		return 0;
	file->line_nr++;
	line[strcspn(line, "\n")] = 0;
	return 1;
}

/* "test 17 open/unlink two 5" */
static int read_head(struct test *test, const struct test_file *file, const char *line, char *error)
{
	char mode[8], more;
	int words;

	test->moved = test->nr_calls = 0;
	words = sscanf(line, "test %31s %63s %7s %d %c", test->id, test->label, mode, &test->moved, &more);
	test->two_processes = words >= 3 && !strcmp(mode, "two");
	if (words < 3 || words > 4 || (!test->two_processes && strcmp(mode, "same")) || test->moved < 0 ||
	    test->moved > MOST_MOVED)
		return wrong(file, error, "a test begins with: test ID CALL/CALL same|two");
	return 0;
}

/* A and B come last, or not at all. */
static int check_order(const struct test *test, const struct test_file *file, char *error)
{
	const struct call *call = &test->calls[test->nr_calls].call;
	enum call_role before = test->nr_calls ? test->calls[test->nr_calls - 1].call.role : ROLE_SET_UP;

	if (before == ROLE_B || (before == ROLE_A) != (call->role == ROLE_B))
		return wrong(file, error, "the last two calls of a test are A and B, in this order");
	if (call->kind >= CALL_DUP && call->role != ROLE_SET_UP)
		return wrong(file, error, "this call is for setting up only");
	if (file->checks_processes && !test->two_processes && (call->process || call->kind == CALL_RECEIVE))
		return wrong(file, error, "a test of the same process has no other one");
	return 0;
}

/* "A 0 open a creat -> 3" */
static int read_call(struct test *test, const struct test_file *file, char *line, char *error)
{
	struct test_call *call = &test->calls[test->nr_calls];
	char *arrow = strstr(line, " ->"), why[CALL_ERROR_BYTES];

	if (test->nr_calls == MOST_CALLS)
		return wrong(file, error, "a test has at most %d calls", MOST_CALLS);
	*call->expected = 0;
	if (arrow) {
		const char *expected = arrow + strlen(" ->");

		*arrow = 0;
		snprintf(call->expected, sizeof(call->expected), "%s", expected + (*expected == ' '));
	}
	snprintf(call->text, sizeof(call->text), "%s", line);
	if (call_read(&call->call, line, why))
		return wrong(file, error, "%s", why);
	if (check_order(test, file, error))
		return -1;
	call->call.fd += test->moved;
	call->call.to += test->moved;
	call->call.salt = test->moved;
	test->nr_calls++;
	return 0;
}

int test_has_pair(const struct test *test)
{
	return test->nr_calls && test->calls[test->nr_calls - 1].call.role == ROLE_B;
}

int test_read(struct test *test, struct test_file *file, char error[TEST_ERROR_BYTES])
{
	char line[LINE_BYTES];

	do {
		if (!read_line(file, line))
			return 0;
	} while (!*line);
	if (read_head(test, file, line, error))
		return -1;
	while (read_line(file, line) && *line)
		if (read_call(test, file, line, error))
			return -1;
	if (test->nr_calls && test->calls[test->nr_calls - 1].call.role == ROLE_A)
		return wrong(file, error, "a test that has a call A has a call B");
	return 1;
}
