// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The guest agent: PID 1 in a virtual machine, a plain program on a real one.
 *
 * It is linked with one workload, a C file with will-it-scale's testcase() interface, or runs an external command. A job
 * file says what to do. The workload runs in a child, the runner: if the workload exits or crashes, also in thread mode,
 * the agent lives on and reports it.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/cgroup.h"
#include "machine/file_system.h"
#include "machine/init.h"
#include "machine/settings.h"
#include "matrix/run_tests.h"
#include "programs/command.h"
#include "protocol/job.h"
#include "protocol/recorder.h"
#include "protocol/report.h"
#include "real/guard.h"
#include "real/machine_lock.h"
#include "tasks/die_with.h"
#include "tasks/tasks.h"
#include "workload/measure.h"

/* Only in an agent that is made for tests. */
#pragma weak run_tests

static int run(const struct job *job)
{
	if (job->command.nr)
		return run_command(job);
	if (!job->tests)
		return measure(job);
	if (run_tests)
		return run_tests(job);
	report_error("job", "the agent was made without the calls of tests");
	return MEASURE_REPORTED;
}

static int run_in_child(const struct job *job)
{
	pid_t agent = getpid(), runner = fork();
	int status;

	if (runner < 0)
		return report_error("machine", "cannot fork: %m");
	if (!runner) {
		die_with(agent);
		_exit(cgroup_enter() ? MEASURE_REPORTED : run(job));
	}

	for (;;) {
		/* PID 1 inherits the workload's orphans: reap them all, wait for one. */
		pid_t pid = wait(&status);

		if (pid == runner)
			break;
	}
	if (WIFSIGNALED(status))
		return report_error("workload", "the workload was killed by signal %d (%s)%s", WTERMSIG(status),
				    strsignal(WTERMSIG(status)), workload_stderr());
	if (WEXITSTATUS(status) != MEASURED && WEXITSTATUS(status) != MEASURE_REPORTED)
		return report_error("workload", "the workload ended by itself with status %d%s", WEXITSTATUS(status),
				    workload_stderr());
	return WEXITSTATUS(status) == MEASURED ? 0 : 1;
}

static int read_job(struct job *job, const char *path)
{
	FILE *text = fopen(path, "re");
	char error[JOB_ERROR_BYTES];
	int failed;

	if (!text)
		return report_error("job", "cannot open the job %s: %m", path);
	failed = job_read(job, text, error);
	fclose(text);
	return failed ? report_error("job", "%s", error) : 0;
}

/* On a real machine: CPUs go offline only if that is allowed, and everything is restored. */
static int spare_machine(const struct job *job)
{
	if (workload_is_bounded() && !job->allow_hotplug)
		return report_error("workload", "it takes CPUs of this machine offline: say --allow-hotplug if it may");
	return guard_begin(job);
}

int main(int argc, char **argv)
{
	static struct job job;
	int is_init = getpid() == 1;
	int failed;

	if (!is_init && argc != 2)
		return fprintf(stderr, "usage: agent JOB\n"), 2;

	report_open(is_init ? SECOND_SERIAL_LINE : NULL);
	if (!is_init)
		lock_machine();
	report_hello();
	capture_workload_stderr();

	failed = read_job(&job, is_init ? "/job" : argv[1]) || (is_init ? file_system_mount(&job) : spare_machine(&job)) ||
		 cgroup_make(&job) || apply_settings(&job);
	if (job.time_slice_instructions)
		recorder_mark(MARK_TIME_SLICES, (void *)job.time_slice_seed, job.time_slice_instructions);
	if (!failed && job.tasks)
		failed = run_in_child(&job);
	if (!failed)
		failed = report_files(&job);
	failed = guard_end() || failed;
	report_end(failed);

	if (is_init)
		halt_machine();
	return failed;
}
