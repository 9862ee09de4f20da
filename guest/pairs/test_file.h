/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tests as text, which ends at an empty line:
 *
 *	test 17 open/unlink two
 *	0 open a creat -> 3
 *	A 0 open b creat,excl -> 4
 *	B 1 unlink a -> 0
 *
 * The first line may have a number more: by how much to move the test's descriptors. What follows the arrow is the
 * expected result, which may be missing. So may A and B.
 */
#ifndef TEST_FILE_H
#define TEST_FILE_H

#include <stdio.h>

#include "call_text.h"

#define MOST_CALLS 256
#define CALL_TEXT_BYTES 96
#define TEST_ERROR_BYTES 256
#define MOST_MOVED (OWN_FD - 1 - LAST_FD)

struct test_call {
	struct call call;
	char text[CALL_TEXT_BYTES];
	char expected[CALL_TEXT_BYTES]; /* result_print()'s text, but for the role and the end of line */
};

struct test {
	char id[32], label[64];
	int two_processes; /* make A and B; else two threads of one process do */
	int moved; /* the test's descriptors lie that much above those of its text; the ones below them are taken */
	unsigned int nr_calls;
	struct test_call calls[MOST_CALLS];
};

struct test_file {
	FILE *text;
	int checks_processes; /* refuse calls of another process in a test of one process */
	unsigned long line_nr;
};

/* Returns 1, or 0 at the end of the file, or -1 with the line and the reason in `error`. */
int test_read(struct test *test, struct test_file *file, char error[TEST_ERROR_BYTES]);

/* Whether the last two calls of the test are A and B. */
int test_has_pair(const struct test *test);

#endif
