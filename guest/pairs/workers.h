/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who makes the calls: a process of two threads, and two processes of one thread each, which stay from one test to the
 * next and share nothing with each other but what a test has them share. A's is pinned to one CPU, B's to another.
 */
#ifndef WORKERS_H
#define WORKERS_H

#include "calls.h"

#define MOST_CALLS 256

struct test {
	char id[32], label[64];
	int same;	/* A and B are made by two threads of one process */
	int nr_calls;
	struct call calls[MOST_CALLS];
	struct result results[MOST_CALLS];
};

/*
 * Start them, in the working folder; `cpus` of A's and B's, or NULL: anywhere. Returns the test that they share with the
 * caller, NULL with errno if they cannot be started.
 */
struct test *workers_start(const int cpus[2]);
/*
 * Make the test's calls in an empty folder that is there afterwards no more, in their order or with B before A.
 * Returns 0, or 1 with what went wrong in `error`: no result of a call is wrong.
 */
int workers_play(struct test *test, int b_first, char error[CALL_ERROR_BYTES]);
void workers_stop(void);

#endif
