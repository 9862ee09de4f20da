// SPDX-License-Identifier: GPL-2.0-or-later
#include "test_file.h"

#include <string.h>

#define LINE_BYTES 512

static int wrong(char error[128], const char *what, const char *line)
{
	snprintf(error, 128, "%s: %.80s", what, line);
	return -1;
}

/* "0 open a creat -> 3" */
static int read_call(struct call *call, const char *text)
{
	const char *arrow = strstr(text, " -> ");
	size_t length = arrow ? (size_t)(arrow - text) : 0;

	if ((text[0] != '0' && text[0] != '1') || text[1] != ' ' || length < 3 || length - 2 >= sizeof(call->text) ||
	    strlen(arrow + 4) >= sizeof(call->expected))
		return -1;
	call->process = text[0] - '0';
	snprintf(call->text, sizeof(call->text), "%.*s", (int)length - 2, text + 2);
	strcpy(call->expected, arrow + 4);
	return 0;
}

static int read_line(struct test *test, const char *line)
{
	if (!strncmp(line, "A ", 2))
		return read_call(&test->a, line + 2);
	if (!strncmp(line, "B ", 2))
		return read_call(&test->b, line + 2);
	if (test->nr_setup == MAX_SETUP)
		return -1;
	return read_call(&test->setup[test->nr_setup++], line);
}

int test_read(struct test *test, FILE *file, char error[128])
{
	char line[LINE_BYTES], mode[8];
	int begun = 0;

	memset(test, 0, sizeof(*test));
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (!*line && begun)
			break;
		if (!*line)
			continue;
		if (!begun && sscanf(line, "test %lu %*s %7s", &test->number, mode) != 2)
			return wrong(error, "no test begins with", line);
		if (!begun)
			test->two_processes = !strcmp(mode, "two");
		else if (read_line(test, line))
			return wrong(error, "not a call and what it returns", line);
		begun = 1;
	}
	if (begun && (!*test->a.text || !*test->b.text))
		return wrong(error, "a test without the calls A and B", line);
	return begun;
}
