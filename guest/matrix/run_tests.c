// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "run_tests.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
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
#include "../pairs/calls.h"
#include "test_file.h"

#define COORDINATOR_CPU 2 /* 0 and 1 make the calls */
#define TESTS_OF_A_STAGE 200
#define SPINS_BY_THE_CLOCK 4096
#define HIGHEST_FD 1024
#define MAX_NAMES (2 * MAX_CALLS)

/*
 * Makes the calls of one side, on its own CPU. It spins for the next one in user mode: whoever slept would be woken
 * by the scheduler, which writes to other CPUs' lines, and would find its caches and its page tables changed. Each has
 * a page of its own.
 */
struct worker {
	unsigned int wanted; /* how many things it was given to do; a futex while it sleeps */
	unsigned int done;
	enum { MAKE, MAKE_RECORDED, SEND, UNDO, SLEEP } what;
	struct call call;
	struct result result;
	unsigned int nr_names; /* of files to remove, by UNDO */
	char names[MAX_NAMES][NAME_BYTES];
} __attribute__((aligned(4096)));

/* Threads of one process, and two processes: only one of the two runs at a time, the other one sleeps. */
struct side {
	struct worker workers[2];
};

static struct side *sides; /* [0]: threads of one process, [1]: two processes; shared with them */
static int awake = -1;	   /* which of them */
static uint64_t patience_ns;

static void receive(struct worker *worker)
{
	int failed = receive_fd(OWN_FD + worker->call.process, worker->call.to);

	worker->result = (struct result){ .kind = failed ? RESULT_ERROR : RESULT_NUMBER,
					  .value = failed ? errno : worker->call.to };
}

static void undo(struct worker *worker)
{
	calls_undo();
	for (unsigned int i = 0; i < worker->nr_names; i++)
		unlink(worker->names[i]);
}

static void do_it(struct worker *worker)
{
	if (worker->what == UNDO) {
		undo(worker);
	} else if (worker->what == SEND) {
		send_fd(OWN_FD + !worker->call.process, worker->call.fd);
	} else if (worker->what == MAKE && worker->call.kind == CALL_RECEIVE) {
		receive(worker);
	} else if (worker->what == MAKE) {
		call_make(&worker->call, &worker->result);
	} else if (worker->what == MAKE_RECORDED) {
		recorder_mark(MARK_CALL, NULL, 0);
		call_make(&worker->call, &worker->result);
		recorder_mark(MARK_CALL_END, NULL, 0);
	}
}

static void work(struct worker *worker, int cpu)
{
	unsigned int done = 0;
	int sleeps = 1;

	calls_prepare();
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
		do_it(worker);
		__atomic_store_n(&worker->done, done, __ATOMIC_RELEASE);
	}
}

static void *second_thread(void *worker)
{
	work(worker, 1);
	return NULL;
}

/* The first that calls use is free, and of those that are not theirs only the sockets are left. */
static void leave_files(const int *sockets)
{
	for (int i = 0; i < 2; i++)
		dup2(sockets[i], OWN_FD + 2 + i);
	for (int i = 0; i < 2; i++)
		dup2(OWN_FD + 2 + i, OWN_FD + i);
	for (int fd = FIRST_FD; fd < HIGHEST_FD; fd++)
		if (fd != OWN_FD && fd != OWN_FD + 1)
			close(fd);
}

static int start_process(struct worker *worker, int cpu, struct worker *thread, const int *sockets)
{
	pid_t runner = getpid(), pid = fork();
	pthread_t second;

	if (pid)
		return pid < 0;
	die_with(runner);
	leave_files(sockets);
	if (thread && pthread_create(&second, NULL, second_thread, thread))
		_exit(1);
	work(worker, cpu);
	_exit(1);
}

static int start_workers(void)
{
	int sockets[2];

	sides = mmap(NULL, 2 * sizeof(*sides), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1,
		     0);
	if (sides == MAP_FAILED || socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets) ||
	    start_process(&sides[0].workers[0], 0, &sides[0].workers[1], sockets) ||
	    start_process(&sides[1].workers[0], 0, NULL, sockets) ||
	    start_process(&sides[1].workers[1], 1, NULL, sockets))
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
		worker->nr_names = 0;
		__atomic_add_fetch(&worker->wanted, 1, __ATOMIC_RELEASE);
		syscall(SYS_futex, &worker->wanted, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
		while (__atomic_load_n(&worker->done, __ATOMIC_ACQUIRE) != worker->wanted)
			let_another_run();
	}
	return 0;
}

/* What a test ended in, if not as it should. */
enum { AS_EXPECTED, OTHER, HANGS };

static struct worker *worker_of(const struct test *test, const struct call *call)
{
	return &sides[test->two_processes].workers[test->two_processes ? call->process : call->role == ROLE_B];
}

static int make_call(const struct test *test, const struct test_call *wanted, int recorded)
{
	struct worker *worker = worker_of(test, &wanted->call);

	worker->call = wanted->call;
	if (wanted->call.kind == CALL_RECEIVE) {
		struct worker *other = &sides[1].workers[!wanted->call.process];

		other->call = (struct call){ .process = !wanted->call.process, .fd = wanted->call.fd };
		if (give(other, SEND))
			return HANGS;
	}
	return give(worker, recorded ? MAKE_RECORDED : MAKE) ? HANGS : AS_EXPECTED;
}

static int check(const struct test *test, const struct test_call *wanted, struct inodes *inodes)
{
	char text[CALL_TEXT_BYTES + 4] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");
	const char *result = wanted->call.role == ROLE_SET_UP ? text : text + 2;

	if (!out)
		return OTHER;
	result_print(&wanted->call, &worker_of(test, &wanted->call)->result, inodes, out);
	fclose(out);
	text[strcspn(text, "\n")] = '\0';
	if (!strcmp(result, wanted->expected))
		return AS_EXPECTED;
	report_test_failed(test->number, wanted->text, wanted->expected, result);
	return OTHER;
}

/* The results of A and B are looked at when both were made: nothing is to be between them. */
static int run_calls(const struct test *test, int recorded)
{
	struct inodes inodes = { 0 };
	unsigned int nr_setup = test->nr_calls - 2;
	int failed = AS_EXPECTED;

	for (unsigned int i = 0; i < nr_setup && !failed; i++)
		failed = make_call(test, &test->calls[i], 0) ?: check(test, &test->calls[i], &inodes);
	if (failed)
		return failed;
	if (recorded)
		recorder_mark(MARK_TEST, NULL, test->number);
	for (unsigned int i = nr_setup; i < test->nr_calls; i++)
		if (make_call(test, &test->calls[i], recorded))
			return HANGS;
	if (recorded)
		recorder_mark(MARK_TEST_END, NULL, test->number);
	for (unsigned int i = nr_setup; i < test->nr_calls; i++)
		failed = check(test, &test->calls[i], &inodes) ?: failed;
	return failed;
}

/* Files that several calls name are there several times: to remove one again does no harm. */
static void note_names(const struct test *test, struct worker *worker)
{
	worker->nr_names = 0;
	for (unsigned int i = 0; i < test->nr_calls; i++)
		for (int name = 0; name < 2; name++)
			if (*test->calls[i].call.names[name])
				strcpy(worker->names[worker->nr_names++], test->calls[i].call.names[name]);
}

static int undo_all(const struct test *test)
{
	struct worker *workers = sides[test->two_processes].workers;

	note_names(test, &workers[0]);
	workers[1].nr_names = 0;
	if (test->two_processes && give(&workers[1], UNDO))
		return HANGS;
	return give(&workers[0], UNDO) ? HANGS : AS_EXPECTED;
}

/* Returns 1 if it hangs, and this machine is of no use any more. */
static int run_test(const struct test *test, unsigned long warmup)
{
	int failed = AS_EXPECTED;

	if (awake != test->two_processes && change_sides(test->two_processes))
		return 1;
	for (unsigned long run = 0; run <= warmup && !failed; run++)
		failed = run_calls(test, run == warmup) ?: undo_all(test);
	if (failed == OTHER)
		failed = undo_all(test);
	return failed == HANGS;
}

static int run_all(const struct job *job, FILE *file)
{
	static struct test test;
	char error[TEST_ERROR_BYTES], stage[64];
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

	patience_ns = job->patience_s * 1000000000ull / (job->dilated ? job->dilated : 1);
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
