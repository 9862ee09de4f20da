/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tests as text, one after the other: docs/matrix.md has the form. In the first line of each there may be a number
 * more: by how much to move its descriptors.
 */
#ifndef TEST_FILE_H
#define TEST_FILE_H

#include <stdio.h>

#include "../pairs/calls.h"

#define MAX_CALLS 256
#define CALL_TEXT_BYTES 96
#define TEST_ERROR_BYTES 256
#define MOST_MOVED (OWN_FD - 1 - LAST_FD)

struct test_call {
	struct call call;
	char text[CALL_TEXT_BYTES];
	char expected[CALL_TEXT_BYTES]; /* result_print()'s text, but for its end of line */
};

struct test {
	unsigned long number;
	int two_processes;
	int moved;		/* by how many descriptors its own lie above those of its text; the ones below are taken */
	unsigned int nr_calls; /* of them the last two are A and B */
	struct test_call calls[MAX_CALLS];
};

/* Returns 1, or 0 at the end of the file, or -1 with what is wrong in `error`. */
int test_read(struct test *test, FILE *file, char error[TEST_ERROR_BYTES]);

#endif
