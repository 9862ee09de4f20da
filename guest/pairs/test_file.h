/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tests as text, one after the other: docs/matrix.md has the form. */
#ifndef TEST_FILE_H
#define TEST_FILE_H

#include <stdio.h>

#include "calls.h"

#define MAX_SETUP 32

struct test {
	unsigned long number;
	int two_processes;
	unsigned int nr_setup;
	struct call setup[MAX_SETUP], a, b;
};

/* Returns 1, or 0 at the end of the file, or -1 with what is wrong in `error`. */
int test_read(struct test *test, FILE *file, char error[128]);

#endif
