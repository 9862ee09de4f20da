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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timex.h>
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

#define MOST_COPIES 32
#define TESTS_OF_A_STAGE 200
#define SPINS_BY_THE_CLOCK 4096
#define SPINS_OF_MOST (1 << 20) /* nearly every call returns sooner */
#define INSNS_OF_A_SPIN 4096
#define HIGHEST_FD 1024

/*
 * Makes the calls of one side, on its own CPU. It spins for the next one in user mode: whoever slept would be woken
 * by the scheduler, which writes to other CPUs' lines, and would find its caches and its page tables changed. Each has
 * a page of its own.
 */
struct copy;
struct worker {
	struct copy *copy;
	int cpu;
	unsigned int wanted; /* how many things it was given to do; a futex while it sleeps */
	unsigned int done;
	enum { TAKE_FDS, MAKE, MAKE_RECORDED, SEND, UNDO, SLEEP } what;
	unsigned int first, end; /* which of the test's calls to make */
} __attribute__((aligned(4096)));

/* Threads of one process, and two processes: only one of the two runs at a time, the other one sleeps. */
struct side {
	struct worker workers[2];
};

/* Several make the same test at once, each with processes, a folder and sockets' addresses of its own. */
struct copy {
	struct side sides[2]; /* [0]: threads of one process, [1]: two processes */
	struct result results[MAX_CALLS];
};

/* Shared with those that make the calls. */
static struct shared {
	struct copy copies[MOST_COPIES];
	struct test test; /* that runs now */
} *shared;
static int nr_copies;
static int awake = -1; /* which side of each */
static struct {
	unsigned long given;
	const char *unit;
	uint64_t ns; /* the same by this machine's clock */
} patience;

static void receive(const struct call *call, struct result *result)
{
	int failed = receive_fd(OWN_FD + call->process, call->to);

	*result = (struct result){ .kind = failed ? RESULT_ERROR : RESULT_NUMBER, .value = failed ? errno : call->to };
}

static void make_calls(const struct worker *worker)
{
	for (unsigned int i = worker->first; i < worker->end; i++) {
		const struct call *call = &shared->test.calls[i].call;

		if (call->kind == CALL_RECEIVE)
			receive(call, &worker->copy->results[i]);
		else
			call_make(call, &worker->copy->results[i]);
	}
}

/* Files that several calls name are there several times: to remove one again does no harm. */
static void undo(const struct worker *worker)
{
	calls_undo();
	for (unsigned int i = worker->first; i < worker->end; i++)
		for (int name = 0; name < 2; name++)
			if (*shared->test.calls[i].call.names[name])
				unlink(shared->test.calls[i].call.names[name]);
}

/* Those below the test's own, so that the lowest that is free is one of these. */
static void take_fds(void)
{
	for (int fd = FIRST_FD; fd < FIRST_FD + shared->test.moved; fd++)
		dup2(OWN_FD, fd);
}

static void do_it(const struct worker *worker)
{
	const struct call *first = &shared->test.calls[worker->first].call;

	if (worker->what == TAKE_FDS) {
		take_fds();
	} else if (worker->what == UNDO) {
		undo(worker);
	} else if (worker->what == SEND) {
		send_fd(OWN_FD + !first->process, first->fd);
	} else if (worker->what == MAKE) {
		make_calls(worker);
	} else if (worker->what == MAKE_RECORDED) {
		recorder_mark(MARK_CALL, NULL, 0);
		call_make(first, &worker->copy->results[worker->first]);
		recorder_mark(MARK_CALL_END, NULL, 0);
	}
}

static void work(struct worker *worker)
{
	unsigned int done = 0;
	int sleeps = 1;

	calls_prepare();
	if (pin(0, worker->cpu))
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
	work(worker);
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

static int start_process(struct worker *worker, struct worker *thread, const int *sockets)
{
	pid_t runner = getpid(), pid = fork();
	pthread_t second;

	if (pid)
		return pid < 0;
	die_with(runner);
	leave_files(sockets);
	if (thread && pthread_create(&second, NULL, second_thread, thread))
		_exit(1);
	work(worker);
	_exit(1);
}

static int start_copy(struct copy *copy, int first_cpu)
{
	int sockets[2], failed;

	for (int i = 0; i < 4; i++) {
		struct worker *worker = &copy->sides[i / 2].workers[i % 2];

		worker->copy = copy;
		worker->cpu = first_cpu + i % 2;
	}
	if (calls_share() || socketpair(AF_UNIX, SOCK_DGRAM, 0, sockets))
		return 1;
	failed = start_process(&copy->sides[0].workers[0], &copy->sides[0].workers[1], sockets) ||
		 start_process(&copy->sides[1].workers[0], NULL, sockets) ||
		 start_process(&copy->sides[1].workers[1], NULL, sockets);
	close(sockets[0]);
	close(sockets[1]);
	return failed;
}

/* Its processes inherit the folder. */
static int start_in_folder(int nr)
{
	char folder[16];

	snprintf(folder, sizeof(folder), "copy%d", nr);
	return mkdir(folder, 0700) || chdir(folder) || start_copy(&shared->copies[nr], 2 * nr) || chdir("..");
}

static int start_workers(void)
{
	int failed = 0;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (shared == MAP_FAILED)
		failed = 1;
	else if (nr_copies == 1)
		failed = start_copy(&shared->copies[0], 0);
	for (int nr = 0; nr < nr_copies && nr_copies > 1 && !failed; nr++)
		failed = start_in_folder(nr);
	return failed ? report_error("machine", "cannot start the processes that make calls: %m") : 0;
}

/* The clock follows the instructions of all CPUs, and those that only look and pass on take the emulator long. */
static void let_time_pass(void)
{
	for (int i = 0; i < INSNS_OF_A_SPIN / 2; i++)
		asm volatile("");
}

/* Returns 1, which is reported, where it takes too long: its call hangs, or it has died. */
static int await(const struct worker *worker)
{
	uint64_t deadline = clock_ns() + patience.ns;

	for (unsigned long spins = 1; __atomic_load_n(&worker->done, __ATOMIC_ACQUIRE) != worker->wanted; spins++) {
		if (spins > SPINS_OF_MOST)
			let_time_pass();
		let_another_run();
		if (spins % SPINS_BY_THE_CLOCK || clock_ns() <= deadline)
			continue;
		if (worker->what == UNDO || worker->what == SLEEP)
			return report_error("machine", "what makes calls on CPU %d did not answer in %lu %s",
					    worker->cpu, patience.given, patience.unit);
		return report_error("machine", "\"%s\" did not return in %lu %s",
				    shared->test.calls[worker->first].text, patience.given, patience.unit);
	}
	return 0;
}

/* Have it do something with the test's calls from `first` to before `end`. Returns 1 where it takes too long. */
static int give(struct worker *worker, int what, unsigned int first, unsigned int end)
{
	worker->what = what;
	worker->first = first;
	worker->end = end;
	__atomic_add_fetch(&worker->wanted, 1, __ATOMIC_RELEASE);
	return await(worker);
}

static int wake(struct worker *worker)
{
	worker->what = UNDO;
	worker->first = worker->end = 0;
	__atomic_add_fetch(&worker->wanted, 1, __ATOMIC_RELEASE);
	syscall(SYS_futex, &worker->wanted, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	return await(worker);
}

static int change_sides(int to)
{
	for (int nr = 0; nr < nr_copies; nr++) {
		struct side *sides = shared->copies[nr].sides;

		for (int i = 0; i < 2 && awake >= 0; i++)
			if (give(&sides[awake].workers[i], SLEEP, 0, 0))
				return 1;
		for (int i = 0; i < 2; i++)
			if (wake(&sides[to].workers[i]))
				return 1;
	}
	awake = to;
	return 0;
}

/* What a test ended in, if not as it should. */
enum { AS_EXPECTED, OTHER, HANGS };

static struct worker *worker_of(struct copy *copy, const struct call *call)
{
	int two = shared->test.two_processes;

	return &copy->sides[two].workers[two ? call->process : call->role == ROLE_B];
}

/* As many in a row as one of them makes by itself. */
static int set_up(struct copy *copy, unsigned int end)
{
	const struct test_call *calls = shared->test.calls;
	int two = shared->test.two_processes;
	unsigned int next;

	for (int process = 0; process <= two; process++)
		if (shared->test.moved && give(&copy->sides[two].workers[process], TAKE_FDS, 0, 0))
			return HANGS;
	for (unsigned int first = 0; first < end; first = next) {
		struct worker *worker = worker_of(copy, &calls[first].call);

		next = first + 1;
		if (calls[first].call.kind == CALL_RECEIVE) {
			if (give(&copy->sides[1].workers[!calls[first].call.process], SEND, first, next))
				return HANGS;
		} else {
			while (next < end && worker_of(copy, &calls[next].call) == worker &&
			       calls[next].call.kind != CALL_RECEIVE)
				next++;
		}
		if (give(worker, MAKE, first, next))
			return HANGS;
	}
	return AS_EXPECTED;
}

/*
 * What was set up is a tick old and more, as most of what a call meets: within the tick of a time stamp nobody writes
 * it again. The clock is set, as to wait takes long. Returns 1, which is reported, where it cannot be.
 */
static int let_a_second_pass(void)
{
	struct timex later = { .modes = ADJ_SETOFFSET, .time.tv_sec = 1 };

	return adjtimex(&later) < 0 ? report_error("machine", "cannot set the clock: %m") : 0;
}

/* As its text has it: without what the test's descriptors were moved by. */
static struct result unmoved(const struct call *call, struct result result)
{
	int is_fd = call->kind == CALL_OPEN || call->kind == CALL_DUP || call->kind == CALL_RECEIVE ||
		    call->kind == CALL_EPOLL_CREATE || call->kind == CALL_SOCKET;

	for (int i = 0; result.kind == RESULT_READY && i < result.value; i++)
		result.ready[i] -= shared->test.moved;
	if (result.kind == RESULT_PIPE || (result.kind == RESULT_NUMBER && is_fd)) {
		result.value -= shared->test.moved;
		result.other -= shared->test.moved;
	}
	return result;
}

static int check(const struct test_call *wanted, struct result result, struct inodes *inodes)
{
	char text[CALL_TEXT_BYTES + 4] = "";
	FILE *out = fmemopen(text, sizeof(text), "w");
	const char *said = wanted->call.role == ROLE_SET_UP ? text : text + 2;

	if (!out)
		return OTHER;
	result_print(&wanted->call, &result, inodes, out);
	fclose(out);
	text[strcspn(text, "\n")] = '\0';
	if (!strcmp(said, wanted->expected))
		return AS_EXPECTED;
	report_test_failed(shared->test.number, wanted->text, wanted->expected, said);
	return OTHER;
}

static int check_all(const struct copy *copy)
{
	const struct test *test = &shared->test;
	struct inodes inodes = { 0 };
	int failed = AS_EXPECTED;

	for (unsigned int i = 0; i < test->nr_calls && !failed; i++)
		failed = check(&test->calls[i], unmoved(&test->calls[i].call, copy->results[i]), &inodes);
	return failed;
}

static int make_pair(struct copy *copy, int recorded)
{
	const struct test *test = &shared->test;

	for (unsigned int i = test->nr_calls - 2; i < test->nr_calls; i++)
		if (give(worker_of(copy, &test->calls[i].call), recorded ? MAKE_RECORDED : MAKE, i, i + 1))
			return HANGS;
	return AS_EXPECTED;
}

/* The results are looked at when all calls were made: nothing is to be between them. */
static int run_calls(int recorded)
{
	int failed = AS_EXPECTED;

	for (int nr = 0; nr < nr_copies && !failed; nr++)
		failed = set_up(&shared->copies[nr], shared->test.nr_calls - 2);
	if (failed || let_a_second_pass())
		return HANGS;
	if (recorded)
		recorder_mark(MARK_TEST, NULL, shared->test.number);
	for (int nr = 0; nr < nr_copies && !failed; nr++)
		failed = make_pair(&shared->copies[nr], recorded);
	if (failed)
		return HANGS;
	if (recorded)
		recorder_mark(MARK_TEST_END, NULL, shared->test.number);
	for (int nr = 0; nr < nr_copies && !failed; nr++)
		failed = check_all(&shared->copies[nr]);
	return failed;
}

static int undo_all(void)
{
	for (int nr = 0; nr < nr_copies; nr++) {
		struct worker *workers = shared->copies[nr].sides[shared->test.two_processes].workers;

		if ((shared->test.two_processes && give(&workers[1], UNDO, 0, 0)) ||
		    give(&workers[0], UNDO, 0, shared->test.nr_calls))
			return HANGS;
	}
	return AS_EXPECTED;
}

/* Returns 1, which is reported, if it hangs, and this machine is of no use any more. */
static int run_test(unsigned long warmup)
{
	int two = shared->test.two_processes, failed = AS_EXPECTED;

	/* Whatever ends the machine from here on is this test's doing, in its warm-up too. */
	recorder_mark(MARK_TEST, NULL, shared->test.number);
	if (awake != two && change_sides(two))
		return 1;
	for (unsigned long run = 0; run <= warmup && !failed; run++)
		failed = run_calls(run == warmup) ?: undo_all();
	if (failed == OTHER)
		failed = undo_all();
	return failed == HANGS;
}

static int run_all(const struct job *job, FILE *file)
{
	struct test *test = &shared->test;
	char error[TEST_ERROR_BYTES], stage[64];
	unsigned long nr = 0;
	int there;

	while ((there = test_read(test, file, error)) > 0) {
		if (nr++ % TESTS_OF_A_STAGE == 0) {
			snprintf(stage, sizeof(stage), "test %lu of the list", nr);
			report_stage(stage);
		}
		if (run_test(job->warmup))
			return 1;
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

	nr_copies = job->copies ? job->copies : 1;
	patience.given = job->patience_s;
	patience.unit = job_patience_unit(job);
	patience.ns = job_dilated_ns(job, job->patience_s * 1000000000ull);
	if (!file) {
		report_error("job", "cannot open %s: %m", job->tests);
		return MEASURE_REPORTED;
	}
	if (nr_copies > MOST_COPIES) {
		report_error("job", "no more than %d copies run at once, and these are %d", MOST_COPIES, nr_copies);
		return MEASURE_REPORTED;
	}
	if (start_workers())
		return MEASURE_REPORTED;
	if (pin(0, 2 * nr_copies)) {
		report_error("machine", "it takes a machine of %d CPUs: %m", 2 * nr_copies + 1);
		return MEASURE_REPORTED;
	}
	/* Where it cannot be set no test is to blame, and none has begun. */
	if (let_a_second_pass())
		return MEASURE_REPORTED;
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
