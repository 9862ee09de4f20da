// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The smallest harness a workload runs under: workload_harness process|thread TASKS OPERATIONS.
 * Waits until every task has done OPERATIONS operations, however long it takes, then ends them.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_TASKS 16

extern char *testcase_description;
extern void testcase_prepare(unsigned long nr_tasks) __attribute__((weak));
extern void testcase(unsigned long long *iterations, unsigned long nr);
extern void testcase_cleanup(void) __attribute__((weak));

/* A line of its own for each counter, in memory that processes share. */
static struct counter {
	volatile unsigned long long done;
	char padding[128 - sizeof(unsigned long long)];
} *counters;

static bool threads;

static void check(bool good, const char *what)
{
	if (!good) {
		perror(what);
		exit(1);
	}
}

static pid_t new_process(void *(*func)(void *), void *arg)
{
	pid_t parent = getpid(), pid = fork();

	check(pid >= 0, "harness: fork");
	if (!pid) {
		/* A helper dies with its task, a task with the harness: also one that died before it could be asked to. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		func(arg);
		_exit(1);
	}
	return pid;
}

/* The agent's: see guest/tasks/time_slices.h. */
void end_no_time_slices(void)
{
}

void new_task(void *(*func)(void *), void *arg)
{
	pthread_t thread;

	if (threads)
		check(!pthread_create(&thread, NULL, func, arg), "harness: pthread_create");
	else
		new_process(func, arg);
}

static void *task(void *arg)
{
	struct counter *counter = arg;

	testcase((unsigned long long *)&counter->done, counter - counters);
	fprintf(stderr, "harness: testcase() returned\n");
	exit(1);
}

static void *all_threads(void *nr_tasks)
{
	for (unsigned long nr = 0; nr < *(unsigned long *)nr_tasks; nr++)
		new_task(task, &counters[nr]);
	while (1)
		pause();
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long nr, nr_tasks, nr_pids = 0;
	unsigned long long operations;
	pid_t pids[MAX_TASKS];

	check(argc == 4, "harness: usage: process|thread TASKS OPERATIONS");
	threads = !strcmp(argv[1], "thread");
	nr_tasks = strtoul(argv[2], NULL, 10);
	operations = strtoull(argv[3], NULL, 10);
	check(nr_tasks <= MAX_TASKS, "harness: too many tasks");

	counters = mmap(NULL, nr_tasks * sizeof(*counters), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	check(counters != MAP_FAILED, "harness: mmap");

	if (testcase_prepare)
		testcase_prepare(nr_tasks);
	/* Threads too live in a child, so that they are gone when testcase_cleanup() runs. */
	if (threads)
		pids[nr_pids++] = new_process(all_threads, &nr_tasks);
	else
		while (nr_pids < nr_tasks) {
			pids[nr_pids] = new_process(task, &counters[nr_pids]);
			nr_pids++;
		}

	for (nr = 0; nr < nr_tasks; nr++)
		while (counters[nr].done < operations) {
			check(!waitpid(-1, NULL, WNOHANG), "harness: a task ended");
			usleep(1000);
		}

	for (nr = 0; nr < nr_pids; nr++) {
		kill(pids[nr], SIGKILL);
		waitpid(pids[nr], NULL, 0);
	}
	if (testcase_cleanup)
		testcase_cleanup();
	puts(testcase_description);
	return 0;
}
