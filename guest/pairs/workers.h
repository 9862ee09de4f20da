/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The processes that make a test's calls, which stay from one test to the next: one with two threads, and two with one
 * thread each. They share nothing with each other but what a test has them share. Each of the two CPUs runs one thread of
 * the first process and one of the two other processes.
 */
#ifndef WORKERS_H
#define WORKERS_H

#include <stdint.h>

#include "test_file.h"

#define MOST_COPIES 32

/*
 * Several copies can make the same test at once, each with processes, a folder and sockets' addresses of its own.
 *
 * How they wait for each other: asleep, or spinning. To wake a worker that sleeps, the scheduler would write cache lines of
 * other CPUs, and the worker would find caches and page tables changed. A worker that spins does so in user mode.
 */
struct workers_config {
	int copies;
	const int *cpus; /* two for each copy; NULL: any */
	int spins;
	uint64_t patience_ns; /* of the caller, if workers spin: with a call, or with a worker between calls */
	/* A worker has not answered in time, or was ended by a signal. `call`: the text of its call; NULL: between calls. */
	void (*failed)(int cpu, const char *call, int signal);
};

/* Start them, in the working folder. Returns the test that they share with the caller; NULL with errno. */
struct test *workers_start(const struct workers_config *config);
void workers_stop(void);

/* All functions below return 0, or 1 after config.failed(). */

/* Before tests of another kind: the workers of the other kind sleep, and those of this kind spin. */
int workers_change_sides(int two_processes);
/* Make the calls before the test's pair. */
int workers_set_up(int copy);
/* Make one call of the test's pair. `recorded`: between the recorder's marks. */
int workers_make(int copy, unsigned int call, int recorded);
/* Undo what the test's calls did, and remove the files that they name. */
int workers_undo(int copy);

/* The result of a call, by its number. */
const struct result *workers_result(int copy, unsigned int call);

#endif
