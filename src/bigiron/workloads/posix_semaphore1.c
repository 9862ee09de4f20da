// SPDX-License-Identifier: GPL-2.0-or-later
/* Nothing in the kernel: uncontended, it stays in user space. Any count is the baseline's. */
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

char *testcase_description = "wait for and post the task's own POSIX semaphore, uncontended";

static void die(const char *what)
{
	perror(what);
	_exit(1);
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	sem_t sem;

	(void)nr;
	if (sem_init(&sem, 0, 1))
		die("posix_semaphore1: sem_init");

	while (1) {
		if (sem_wait(&sem))
			die("posix_semaphore1: sem_wait");
		if (sem_post(&sem))
			die("posix_semaphore1: sem_post");
		(*iterations)++;
	}
}
