// SPDX-License-Identifier: GPL-2.0-or-later
/* Tasks that look who has done the operation before theirs; the first ends all and says how often it was another. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define OPERATIONS 2000 /* of the first task: it would do them all in one time slice */

char *testcase_description = "look who has done the operation before";

static struct {
	volatile unsigned long last, followed;
} *shared;

void testcase_prepare(unsigned long nr_tasks)
{
	(void)nr_tasks;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	while (1) {
		if (!nr && *iterations == OPERATIONS) {
			fprintf(stderr, "%lu of %d", shared->followed, OPERATIONS);
			exit(0);
		}
		if (!nr && shared->last)
			shared->followed++;
		shared->last = nr;
		getppid();
		(*iterations)++;
	}
}
