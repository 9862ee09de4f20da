// SPDX-License-Identifier: GPL-2.0-or-later
#include "test_file.h"

#include <string.h>

#define LINE_BYTES 512

static int wrong(char error[TEST_ERROR_BYTES], const char *what, const char *line)
{
	snprintf(error, TEST_ERROR_BYTES, "%s: %.80s", what, line);
	return -1;
}

/* "test 17 open/unlink two 5" */
static int read_head(struct test *test, const char *line)
{
	char mode[8];

	test->moved = 0;
	if (sscanf(line, "test %lu %*s %7s %d", &test->number, mode, &test->moved) < 2)
		return 1;
	test->two_processes = !strcmp(mode, "two");
	return test->moved < 0 || test->moved > MOST_MOVED;
}

/* "A 0 open a creat -> 3" */
static int read_call(struct test *test, char *line, char error[TEST_ERROR_BYTES])
{
	struct test_call *call = &test->calls[test->nr_calls];
	char *arrow = strstr(line, " -> "), why[CALL_ERROR_BYTES];

	if (!arrow || arrow - line >= CALL_TEXT_BYTES || strlen(arrow + 4) >= CALL_TEXT_BYTES)
		return wrong(error, "no call with what it returns", line);
	if (test->nr_calls == MAX_CALLS)
		return wrong(error, "more calls than a test can have", line);
	*arrow = '\0';
	strcpy(call->text, line);
	strcpy(call->expected, arrow + 4);
	if (call_read(&call->call, line, why))
		return wrong(error, why, call->text);
	call->call.fd += test->moved;
	call->call.to += test->moved;
	call->call.salt = test->moved;
	test->nr_calls++;
	return 0;
}

static int is_whole(const struct test *test)
{
	const struct test_call *after = &test->calls[test->nr_calls];

	return test->nr_calls >= 2 && after[-2].call.role == ROLE_A && after[-1].call.role == ROLE_B;
}

int test_read(struct test *test, FILE *file, char error[TEST_ERROR_BYTES])
{
	char line[LINE_BYTES];
	int begun = 0;

	test->nr_calls = 0;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (!*line && begun)
			break;
		if (!*line)
			continue;
		if (!begun && read_head(test, line))
			return wrong(error, "no test begins so", line);
		if (begun && read_call(test, line, error))
			return -1;
		begun = 1;
	}
	if (begun && !is_whole(test)) {
		snprintf(error, TEST_ERROR_BYTES, "test %lu does not end with A and B", test->number);
		return -1;
	}
	return begun;
}
