/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tests of the matrix, one after the other in this machine: docs/explanation/commutativity.md. */
#ifndef RUN_TESTS_H
#define RUN_TESTS_H

struct job;

/*
 * By the runner: run the tests of the job's file in order, each one as often as the job's warm-up says, and then once for
 * the recorder. Report calls with unexpected results. Returns the runner's exit status (workload/measure.h).
 */
int run_tests(const struct job *job);

#endif
