// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "run_tests.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

#include "machine/affinity.h"
#include "machine/clock.h"
#include "pairs/workers.h"
#include "protocol/job.h"
#include "protocol/recorder.h"
#include "protocol/report.h"
#include "workload/measure.h"

#define TESTS_OF_A_STAGE 200

static struct {
	struct test *test; /* the current one, shared with the workers */
	int copies;
	unsigned long patience;
	const char *patience_unit;
} run;

/* How a test ended. */
enum { AS_EXPECTED, OTHER, HANGS };

static void report_hang(int cpu, const char *call, int signal)
{
	(void)signal;
	if (call)
		report_error("machine", "\"%s\" did not return in %lu %s", call, run.patience, run.patience_unit);
	else
		report_error("machine", "what makes calls on CPU %d did not answer in %lu %s", cpu, run.patience,
			     run.patience_unit);
}

/*
 * Files that a call encounters are mostly older than a tick. Within a tick, the kernel does not write a time stamp again.
 * So what was set up must age. The clock is set, because waiting takes long. Returns 1 after reporting that it cannot be.
 */
static int let_a_second_pass(void)
{
	struct timex later = { .modes = ADJ_SETOFFSET, .time.tv_sec = 1 };

	return adjtimex(&later) < 0 ? report_error("machine", "cannot set the clock: %m") : 0;
}

/* The result as the test's text has it: with descriptors that were not moved. */
static struct result unmoved(const struct call *call, struct result result)
{
	int is_fd = call->kind == CALL_OPEN || call->kind == CALL_DUP || call->kind == CALL_RECEIVE ||
		    call->kind == CALL_EPOLL_CREATE || call->kind == CALL_SOCKET;

	for (int i = 0; result.kind == RESULT_READY && i < result.value; i++)
		result.ready[i] -= run.test->moved;
	if (result.kind == RESULT_PIPE || (result.kind == RESULT_NUMBER && is_fd)) {
		result.value -= run.test->moved;
		result.other -= run.test->moved;
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
	report_test_failed(strtoul(run.test->id, NULL, 10), wanted->text, wanted->expected, said);
	return OTHER;
}

static int check_all(int copy)
{
	const struct test *test = run.test;
	struct inodes inodes = { 0 };
	int failed = AS_EXPECTED;

	for (unsigned int i = 0; i < test->nr_calls && !failed; i++)
		failed = check(&test->calls[i], unmoved(&test->calls[i].call, *workers_result(copy, i)), &inodes);
	return failed;
}

static int make_pair(int copy, int recorded)
{
	unsigned int a = run.test->nr_calls - 2;

	return workers_make(copy, a, recorded) || workers_make(copy, a + 1, recorded);
}

/* Results are checked after all calls: nothing else may run between the calls. */
static int run_calls(int recorded)
{
	unsigned long number = strtoul(run.test->id, NULL, 10);
	int failed = AS_EXPECTED;

	for (int copy = 0; copy < run.copies; copy++)
		if (workers_set_up(copy))
			return HANGS;
	if (let_a_second_pass())
		return HANGS;
	if (recorded)
		recorder_mark(MARK_TEST, NULL, number);
	for (int copy = 0; copy < run.copies; copy++)
		if (make_pair(copy, recorded))
			return HANGS;
	if (recorded)
		recorder_mark(MARK_TEST_END, NULL, number);
	for (int copy = 0; copy < run.copies && !failed; copy++)
		failed = check_all(copy);
	return failed;
}

static int undo_all(void)
{
	for (int copy = 0; copy < run.copies; copy++)
		if (workers_undo(copy))
			return HANGS;
	return AS_EXPECTED;
}

/* Returns 1 after reporting that it hangs: this machine is of no use any more. */
static int run_test(unsigned long warmup)
{
	int failed = AS_EXPECTED;

	/* If the machine ends from here on, this test is the cause, also in its warm-up. */
	recorder_mark(MARK_TEST, NULL, strtoul(run.test->id, NULL, 10));
	if (workers_change_sides(run.test->two_processes))
		return 1;
	for (unsigned long i = 0; i <= warmup && !failed; i++)
		failed = run_calls(i == warmup) ?: undo_all();
	if (failed == OTHER)
		failed = undo_all();
	return failed == HANGS;
}

static int run_all(const struct job *job, FILE *text)
{
	struct test_file file = { .text = text };
	char error[TEST_ERROR_BYTES], stage[64];
	unsigned long nr = 0;
	int read;

	while ((read = test_read(run.test, &file, error)) > 0) {
		if (!test_has_pair(run.test))
			return report_error("job", "the tests: test %s does not end with A and B", run.test->id);
		if (nr++ % TESTS_OF_A_STAGE == 0) {
			snprintf(stage, sizeof(stage), "test %lu of the list", nr);
			report_stage(stage);
		}
		if (run_test(job->warmup))
			return 1;
	}
	return read ? report_error("job", "the tests: %s", error) : 0;
}

/* The workers, and this process beside them, on CPUs of their own. */
static int start(const struct job *job)
{
	static int cpus[2 * MOST_COPIES];
	const struct workers_config config = {
		.copies = run.copies,
		.cpus = cpus,
		.spins = 1,
		.patience_ns = job_dilated_ns(job, job->patience_s * 1000000000ull),
		.failed = report_hang,
	};

	if (run.copies > MOST_COPIES)
		return report_error("job", "no more than %d copies run at once, and these are %d", MOST_COPIES, run.copies);
	for (int cpu = 0; cpu < 2 * run.copies; cpu++)
		cpus[cpu] = cpu;
	run.test = workers_start(&config);
	if (!run.test)
		return report_error("machine", "cannot start the processes that make calls: %m");
	if (pin(0, 2 * run.copies))
		return report_error("machine", "it takes a machine of %d CPUs: %m", 2 * run.copies + 1);
	/* If the clock cannot be set, no test is to blame: none has begun. */
	return let_a_second_pass();
}

int run_tests(const struct job *job)
{
	static unsigned long long slot;
	const struct recorder_arm arm = {
		.slots = (uint64_t)&slot,
		.slot_bytes = sizeof(slot),
		.what = RECORD_CONFLICTS | RECORD_TESTS,
	};
	FILE *text = fopen(job->tests, "re");
	uint64_t began = clock_ns();

	run.copies = job->copies ? job->copies : 1;
	run.patience = job->patience_s;
	run.patience_unit = job_patience_unit(job);
	if (!text) {
		report_error("job", "cannot open %s: %m", job->tests);
		return MEASURE_REPORTED;
	}
	if (start(job))
		return MEASURE_REPORTED;
	recorder_mark(MARK_ARM, &arm, sizeof(arm));
	if (run_all(job, text))
		return MEASURE_REPORTED;
	recorder_mark(MARK_DISARM, NULL, 0);
	report_recorded(clock_ns() - began);
	/* The controller reads this machine's memory next. */
	report_end(0);
	for (;;)
		pause();
}
