// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/affinity.h"
#include "machine/clock.h"
#include "patience.h"
#include "processes.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "recorded_part.h"
#include "services.h"
#include "workload/measure.h"

#define MOST_OUTPUT_BYTES (2 << 20) /* of figures that a person reads */

/* The running command. Where what it prints is followed, it comes by pipes, and is kept here all the same. */
struct command {
	pid_t pid;
	int signals; /* tells when a child ends */
	int outputs[2]; /* what it has printed */
	int pipes[2]; /* to read from; -1: it prints to the outputs itself */
	int has_ended;
	int status; /* as of wait() */
};

static int use_cpus(unsigned long wanted)
{
	struct cpus allowed;

	if (allowed_cpus(&allowed))
		return report_error("machine", "cannot tell which CPUs the command may use: %m");
	if (count_cpus(&allowed) < wanted)
		return report_error("machine", "%lu CPUs came up, not %lu", count_cpus(&allowed), wanted);
	if (!wanted)
		return 0;
	first_cpus(wanted, &allowed);
	if (allow_cpus(&allowed))
		return report_error("machine", "cannot pin the command to %lu CPUs: %m", wanted);
	return 0;
}

static int make_outputs(const struct job *job, struct command *command, int *theirs)
{
	for (int i = 0; i < 2; i++) {
		int ends[2] = { -1, -1 };

		command->outputs[i] = memfd_create(i ? "stderr" : "stdout", MFD_CLOEXEC);
		if (command->outputs[i] < 0 || (part_follows_output(job) && pipe2(ends, O_CLOEXEC)))
			return report_error("machine", "cannot keep what the command prints: %m");
		command->pipes[i] = ends[0];
		theirs[i] = ends[1] < 0 ? command->outputs[i] : ends[1];
	}
	return 0;
}

static int start(const struct job *job, struct command *command)
{
	struct program program = { .words = &job->command, .cpus = job->command_cpus, .before = part_before(job) };

	if (make_outputs(job, command, program.outputs))
		return 1;
	command->pid = start_program(job, &program);
	for (int i = 0; i < 2; i++)
		if (command->pipes[i] >= 0)
			close(program.outputs[i]);
	return command->pid < 0;
}

/* Not queued behind the programs, nor preempted between a mark and what follows it; they are not like this. */
static void run_before_others(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first);
}

static int has_written_too_much(const struct command *command)
{
	struct stat status;

	for (int i = 0; i < 2; i++)
		if (!fstat(command->outputs[i], &status) && status.st_size > MOST_OUTPUT_BYTES)
			return 1;
	return 0;
}

static void take_output(const struct job *job, struct command *command, int nr)
{
	char bytes[4096];
	ssize_t length = read(command->pipes[nr], bytes, sizeof(bytes));

	part_sees(job, nr, bytes, length > 0 ? length : 0);
	if (length <= 0) {
		close(command->pipes[nr]);
		command->pipes[nr] = -1;
		return;
	}
	if (write(command->outputs[nr], bytes, length) != length)
		report_lost("bytes that the command printed", length);
}

static int take_signal(const struct job *job, struct command *command)
{
	struct signalfd_siginfo signal;
	int status;
	pid_t pid;

	if (read(command->signals, &signal, sizeof(signal)) == sizeof(signal) && signal.ssi_signo == SIGTERM) {
		kill_descendants();
		_exit(1);
	}
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == command->pid) {
			command->has_ended = 1;
			command->status = status;
		} else if (services_note_end(job, pid, status)) {
			return 1;
		}
	}
	return 0;
}

/* Until it ends, or its recorded part does. Returns 0, or 1 after reporting the error. */
static int wait_for_end(const struct job *job, struct command *command)
{
	struct patience patience;

	patience_begin(&patience, job);
	for (;;) {
		struct pollfd fds[] = {
			{ command->pipes[0], POLLIN, 0 },
			{ command->pipes[1], POLLIN, 0 },
			{ command->signals, POLLIN, 0 },
		};

		poll(fds, 3, part_ms_to_look(job));
		for (int i = 0; i < 2; i++)
			if (fds[i].revents)
				take_output(job, command, i);
		/* What it printed last is read before its end is noticed. */
		if (fds[2].revents && !fds[0].revents && !fds[1].revents && take_signal(job, command))
			return 1;
		if (has_written_too_much(command))
			return report_error("workload", "the command has printed more than %d MiB",
					    MOST_OUTPUT_BYTES >> 20);
		if (services_print_too_much(job))
			return 1;
		if (part_looks(job) || command->has_ended)
			return 0;
		if (patience_is_over(&patience))
			return report_program_error(command->outputs[1], "workload",
						    "the command was not done in %s: see --deadline", job_patience(job));
	}
}

static void report_output(const char *name, int fd)
{
	FILE *file = fdopen(dup(fd), "r");

	if (!file)
		return;
	rewind(file);
	report_lines(name, file);
	fclose(file);
}

static int run(const struct job *job, struct command *command)
{
	uint64_t began, took;
	int failed;

	report_stage("command");
	if (part_prepare(job))
		return 1;
	began = clock_ns();
	if (start(job, command))
		return 1;
	part_started(job);
	failed = wait_for_end(job, command);
	took = clock_ns() - began;
	failed = failed || part_end(job, command->outputs[1]);
	if (!job->stay || failed)
		kill_descendants();
	if (failed)
		return 1;
	report_output("stdout", command->outputs[0]);
	report_output("stderr", command->outputs[1]);
	report_command(took, command->status);
	return 0;
}

int run_command(const struct job *job)
{
	struct command command = { 0 };
	sigset_t signals;
	int failed;

	if (become_subreaper(&signals) || use_cpus(job->cpus))
		return MEASURE_REPORTED;
	command.signals = signalfd(-1, &signals, SFD_CLOEXEC);
	if (job->dilated || job->slowed)
		set_clock();
	if (job->in_root)
		run_before_others();
	failed = (job->marked && install_mark()) || services_start(job) || run(job, &command);
	if (job->stay && !failed) {
		/* The controller ends the machine now, and reads in its memory what the services still hold. */
		report_end(report_files(job));
		for (;;)
			pause();
	}
	return failed ? MEASURE_REPORTED : MEASURED;
}
