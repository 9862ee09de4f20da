// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "run_tests.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../affinity.h"
#include "../clock.h"
#include "../job.h"
#include "../measure.h"
#include "../recorder.h"
#include "../report.h"
#include "../tasks.h"
#include "../turn.h"
#include "calls.h"
#include "test_file.h"

#define COORDINATOR_CPU 2 /* 0 and 1 make the calls */
#define TESTS_OF_A_STAGE 200
#define SPINS_BY_THE_CLOCK 4096
#define HIGHEST_FD 1024

/*
 * Makes the calls of one side, on its own CPU. It spins for the next one in user mode: whoever slept would be woken
 * by the scheduler, which writes to other CPUs' lines, and would find its caches and its page tables changed. Each has
 * a page of its own.
 */
struct worker {
	unsigned int wanted; /* how many things it was given to do; a futex while it sleeps */
	unsigned int done;
	enum { MAKE, MAKE_RECORDED, UNDO, SLEEP } what;
	struct call call;
	char result[CALL_TEXT_BYTES];
} __attribute__((aligned(4096)));

/* Threads of one process, and two processes: only one of the two runs at a time, the other one sleeps. */
struct side {
	struct worker workers[2];
};

static struct side *sides; /* [0]: threads of one process, [1]: two processes; shared with them */
static int awake = -1;	   /* which of them */
static uint64_t patience_ns;

static void make(struct worker *worker, int recorded)
{
	if (recorded)
		recorder_mark(MARK_CALL, NULL, 0);
	call_make(&worker->call, worker->result);
	if (recorded)
		recorder_mark(MARK_CALL_END, NULL, 0);
}

static void work(struct worker *worker, int cpu)
{
	unsigned int done = 0;
	int sleeps = 1;

	call_prepare();
	if (pin(0, cpu))
		_exit(1);
	for (;;) {
		while (__atomic_load_n(&worker->wanted, __ATOMIC_ACQUIRE) == done) {
			if (sleeps)
				syscall(SYS_futex, &worker->wanted, FUTEX_WAIT, done, NULL, NULL, 0);
			else
				let_another_run();
		}
		done++;
		sleeps = worker->what == SLEEP;
		if (worker->what == UNDO)
			calls_undo();
		else if (worker->what != SLEEP)
			make(worker, worker->what == MAKE_RECORDED);
		__atomic_store_n(&worker->done, done, __ATOMIC_RELEASE);
	}
}

static void *second_thread(void *worker)
{
	work(worker, 1);
	return NULL;
}

/* Its first file descriptor is 3. */
static void close_files(void)
{
	for (int fd = 3; fd < HIGHEST_FD; fd++)
		close(fd);
}

static int start_process(struct worker *worker, int cpu, struct worker *thread)
{
	pid_t runner = getpid(), pid = fork();
	pthread_t second;

	if (pid)
		return pid < 0;
	die_with(runner);
	close_files();
	if (thread && pthread_create(&second, NULL, second_thread, thread))
		_exit(1);
	work(worker, cpu);
	_exit(1);
}

static int start_workers(void)
{
	sides = mmap(NULL, 2 * sizeof(*sides), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1,
		     0);
	if (sides == MAP_FAILED || start_process(&sides[0].workers[0], 0, &sides[0].workers[1]) ||
	    start_process(&sides[1].workers[0], 0, NULL) || start_process(&sides[1].workers[1], 1, NULL))
		return report_error("machine", "cannot start the processes that make calls: %m");
	return 0;
}

/* Returns 1 where it takes too long. */
static int give(struct worker *worker, int what)
{
	uint64_t deadline = clock_ns() + patience_ns;
	unsigned int wanted = worker->wanted + 1;

	worker->what = what;
	__atomic_store_n(&worker->wanted, wanted, __ATOMIC_RELEASE);
	for (unsigned long spins = 1; __atomic_load_n(&worker->done, __ATOMIC_ACQUIRE) != wanted; spins++) {
		let_another_run();
		if (spins % SPINS_BY_THE_CLOCK == 0 && clock_ns() > deadline)
			return 1;
	}
	return 0;
}

static int change_sides(int to)
{
	for (int i = 0; i < 2 && awake >= 0; i++)
		if (give(&sides[awake].workers[i], SLEEP))
			return 1;
	awake = to;
	for (int i = 0; i < 2; i++) {
		struct worker *worker = &sides[to].workers[i];

		worker->what = UNDO;
		__atomic_add_fetch(&worker->wanted, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, &worker->wanted, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		while (__atomic_load_n(&worker->done, __ATOMIC_ACQUIRE) != worker->wanted)
			let_another_run();
	}
	return 0;
}

/* What a call ended in, if not as it should. */
enum { AS_EXPECTED, OTHER, HANGS };

static int make_call(const struct test *test, const struct call *call, int worker_nr, int what)
{
	struct worker *worker = &sides[test->two_processes].workers[worker_nr];

	worker->call = *call;
	if (give(worker, what)) {
		report_test_failed(test->number, call->text, call->expected, "nothing: it hangs");
		return HANGS;
	}
	if (!strcmp(worker->result, call->expected))
		return AS_EXPECTED;
	report_test_failed(test->number, call->text, call->expected, worker->result);
	return OTHER;
}

/* The calls A and B are on CPU 0 and 1 where they are threads', on their processes' where they are two. */
static int run_calls(const struct test *test, int recorded)
{
	int two = test->two_processes, what = recorded ? MAKE_RECORDED : MAKE, failed = AS_EXPECTED;

	for (unsigned int i = 0; i < test->nr_setup && !failed; i++)
		failed = make_call(test, &test->setup[i], two ? test->setup[i].process : 0, MAKE);
	if (failed)
		return failed;
	if (recorded)
		recorder_mark(MARK_TEST, NULL, test->number);
	failed = make_call(test, &test->a, two ? test->a.process : 0, what);
	if (failed != HANGS)
		failed = make_call(test, &test->b, two ? test->b.process : 1, what) ?: failed;
	if (recorded && failed != HANGS)
		recorder_mark(MARK_TEST_END, NULL, test->number);
	return failed;
}

static int undo(const struct test *test)
{
	for (int i = 0; i <= test->two_processes; i++)
		if (give(&sides[test->two_processes].workers[i], UNDO))
			return HANGS;
	return AS_EXPECTED;
}

/* Returns 1 if it hangs, and this machine is of no use any more. */
static int run_test(const struct test *test, unsigned long warmup)
{
	int failed = AS_EXPECTED;

	if (awake != test->two_processes && change_sides(test->two_processes))
		return 1;
	for (unsigned long run = 0; run <= warmup && !failed; run++)
		failed = run_calls(test, run == warmup) ?: undo(test);
	if (failed == OTHER && undo(test))
		failed = HANGS;
	return failed == HANGS;
}

static int run_all(const struct job *job, FILE *file)
{
	static struct test test;
	char error[128], stage[64];
	unsigned long nr = 0;
	int there;

	while ((there = test_read(&test, file, error)) > 0) {
		if (nr++ % TESTS_OF_A_STAGE == 0) {
			snprintf(stage, sizeof(stage), "test %lu of the list", nr);
			report_stage(stage);
		}
		if (run_test(&test, job->warmup))
			return report_error("machine", "test %lu hangs", test.number);
	}
	return there ? report_error("job", "the tests: %s", error) : 0;
}

int run_tests(const struct job *job)
{
	static unsigned long long slot;
	const struct recorder_arm arm = {
		.slots = (uint64_t)&slot,
		.slot_bytes = sizeof(slot),
		.what = RECORD_CONFLICTS | RECORD_TESTS,
	};
	FILE *file = fopen(job->tests, "re");
	uint64_t began = clock_ns();

	patience_ns = job->patience_s * 1000000000ull;
	if (!file) {
		report_error("job", "cannot open %s: %m", job->tests);
		return MEASURE_REPORTED;
	}
	if (start_workers())
		return MEASURE_REPORTED;
	if (pin(0, COORDINATOR_CPU)) {
		report_error("machine", "it takes a machine of three CPUs: %m");
		return MEASURE_REPORTED;
	}
	recorder_mark(MARK_ARM, &arm, sizeof(arm));
	if (run_all(job, file))
		return MEASURE_REPORTED;
	recorder_mark(MARK_DISARM, NULL, 0);
	report_recorded(clock_ns() - began);
	/* Whoever listens reads in this machine's memory what lies where. */
	report_end(0);
	for (;;)
		pause();
}
