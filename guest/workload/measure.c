// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "measure.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hotplug.h"
#include "machine/affinity.h"
#include "machine/clock.h"
#include "probes/blocked.h"
#include "probes/efficiency.h"
#include "probes/oncpu.h"
#include "probes/operations.h"
#include "protocol/job.h"
#include "protocol/recorder.h"
#include "protocol/report.h"
#include "tasks/tasks.h"
#include "tracing/tracing.h"

/* Each check interrupts a task that is being measured. */
#define POLL_NS 50000000

static void sleep_ns(uint64_t ns)
{
	const struct timespec time = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&time, NULL);
}

/* A task that has done too few operations when the job's patience ends. */
static int report_late(const struct job *job, const char *stage, unsigned long task, uint64_t done, uint64_t wanted)
{
	const char *unit = job_patience_unit(job);
	char function[64];
	int waits;

	if (done)
		return report_error("workload",
				    "task %lu made %lu of %lu operations in %lu %s (%s): ask for fewer operations", task,
				    done, wanted, job->patience_s, unit, stage);
	waits = task_waits(task, function, sizeof(function));
	if (waits < 0)
		return report_error("workload", "task %lu made no operation in %lu %s (%s)", task, job->patience_s, unit,
				    stage);
	if (waits)
		return report_error("workload", "task %lu made no operation in %lu %s (%s): it waits in %s", task,
				    job->patience_s, unit, stage, function);
	return report_error("workload",
			    "task %lu made no operation in %lu %s (%s) and does not wait: its loop must add 1 to "
			    "*iterations for each; for long operations, see --deadline",
			    task, job->patience_s, unit, stage);
}

/* Wait until each task has counted as far as its target. Returns 0, or 1 after reporting the error. */
static int wait_for(const struct job *job, const char *stage, const uint64_t *target)
{
	uint64_t deadline = clock_ns() + job_dilated_ns(job, job->patience_s * 1000000000ull);
	uint64_t start[job->tasks];

	read_operations(start, job->tasks);
	set_targets(target);
	for (unsigned long i = 0; i < job->tasks; i++) {
		while (task_operations(i) < target[i]) {
			if (report_dead_task(job))
				return 1;
			if (clock_ns() > deadline)
				return report_late(job, stage, i, task_operations(i) - start[i], target[i] - start[i]);
			wait_for_targets(job_dilated_ns(job, POLL_NS));
		}
	}
	return 0;
}

static int warm_up(const struct job *job)
{
	uint64_t target[job->tasks];

	for (unsigned long i = 0; i < job->tasks; i++)
		target[i] = job->warmup;
	report_stage("warm-up");
	return wait_for(job, "warm-up", target);
}

static void sample_now(const struct job *job)
{
	uint64_t operations[job->tasks];

	read_operations(operations, job->tasks);
	report_sample(clock_ns(), operations, job->tasks);
}

static int sample(const struct job *job)
{
	if (!job->samples)
		return 0;
	report_stage("samples");
	sample_now(job);
	for (unsigned long i = 0; i < job->samples; i++) {
		sleep_ns(job->sample_ms * 1000000ull);
		if (report_dead_task(job))
			return 1;
		sample_now(job);
	}
	return 0;
}

/* Wait until every task has done its operations: one more than the job says, as recording begins with a count. */
static int do_operations(const struct job *job, const char *stage)
{
	uint64_t target[job->tasks];

	for (unsigned long i = 0; i < job->tasks; i++)
		target[i] = task_operations(i) + job->operations + 1;
	if (workload_is_bounded())
		release_tasks(job);
	return wait_for(job, stage, target);
}

static int watch(const struct job *job)
{
	int failed;

	if (!job->watch)
		return 0;
	report_stage("operations");
	operations_watch(WATCH_USAGE);
	failed = do_operations(job, "operations");
	operations_watch(WATCH_NOTHING);
	operations_report();
	return failed;
}

static int trace_operations(const struct job *job)
{
	spread_tasks(job);
	if (workload_is_bounded())
		operations_watch(WATCH_FUNCTIONS);
	else
		tracing_write("tracing_on", "1");
	if (do_operations(job, "functions"))
		return 1;
	if (workload_is_bounded()) {
		operations_watch(WATCH_NOTHING);
	} else {
		tracing_write("tracing_on", "0");
		gather_tasks(job);
	}
	return 0;
}

static int trace_functions(const struct job *job)
{
	int more = job->choose_functions;

	if (!job->nr_functions && !job->choose_functions)
		return 0;
	report_stage("functions");
	/* All CPUs are interrupted some hundred times while the code of every function is changed. */
	gather_tasks(job);
	if (functions_begin(job))
		return 1;
	while (more > 0)
		more = trace_operations(job) ? -1 : functions_descend();
	if (more < 0 || trace_operations(job)) {
		functions_abandon();
		return 1;
	}
	return functions_end(job);
}

static int count_blocked(const struct job *job)
{
	uint64_t operations[job->tasks];

	if (!job->blocked)
		return 0;
	report_stage("blocked");
	if (blocked_begin())
		return 1;
	/* Another probe may have gathered them. */
	spread_tasks(job);
	if (workload_is_bounded())
		operations_watch(WATCH_BLOCKED);
	else
		blocked_count(1);
	read_operations(operations, job->tasks);
	if (do_operations(job, "blocked"))
		return 1;
	/* A round begins with a count. */
	for (unsigned long i = 0; i < job->tasks; i++)
		operations[i] = task_operations(i) - operations[i] - !!workload_is_bounded();
	if (workload_is_bounded()) {
		operations_watch(WATCH_NOTHING);
	} else {
		blocked_count(0);
		gather_tasks(job);
	}
	return blocked_end(operations, job->tasks);
}

static int record(const struct job *job)
{
	struct recorder_arm arm = {
		.slots = task_slots(),
		.slot_bytes = TASK_SLOT_BYTES,
		.nr_slots = job->tasks,
		.operations = job->operations,
		/* Other CPUs do much of a round's operation: a CPU that goes offline, for instance, tears itself down. */
		.what = job->record | (workload_is_bounded() ? RECORD_EVERYWHERE : 0),
	};
	uint64_t began;

	if (!job->record)
		return 0;
	report_stage("recording");
	began = clock_ns();
	recorder_mark(MARK_ARM, &arm, sizeof(arm));
	recorder_show_agent();
	if (do_operations(job, "recording"))
		return 1;
	recorder_mark(MARK_DISARM, NULL, 0);
	report_recorded(clock_ns() - began);
	return 0;
}

static int measure_bounded(const struct job *asked)
{
	struct job job = *asked;

	job.operations = operations_of_a_round();
	return watch(&job) || record(&job) || trace_functions(&job) || count_blocked(&job);
}

static int measure_unbounded(const struct job *job)
{
	release_tasks(job);
	return warm_up(job) || sample(job) || (job->oncpu && oncpu_measure(job)) || record(job) || trace_functions(job) ||
	       count_blocked(job) || (job->efficiency && cpu_time_measure(job));
}

int measure(const struct job *job)
{
	const struct sched_param above_the_tasks = { .sched_priority = 1 };
	struct cpus usable;
	int failed;

	if (allowed_cpus(&usable)) {
		report_error("machine", "cannot tell which CPUs there are: %m");
		return MEASURE_REPORTED;
	}
	if (job->cpus && count_cpus(&usable) != job->cpus) {
		report_error("machine", "%lu CPUs came up, not %lu", count_cpus(&usable), job->cpus);
		return MEASURE_REPORTED;
	}
	hotplug_limit(job->cpus_to_cycle);
	if (blocked_prepare(job) || start_tasks(job))
		return MEASURE_REPORTED;
	if (job->dilated || job->slowed)
		set_clock();
	/* The agent must not queue behind the tasks, nor be preempted between a mark and what follows it. */
	sched_setscheduler(0, SCHED_FIFO, &above_the_tasks);
	failed = workload_is_bounded() ? measure_bounded(job) : measure_unbounded(job);
	if (job->stay && !failed) {
		/* The controller ends the machine now, and reads in its memory what the tasks still hold. */
		report_end(report_files(job));
		for (;;)
			pause();
	}
	stop_tasks(job);
	cpu_time_end();
	return failed ? MEASURE_REPORTED : MEASURED;
}
