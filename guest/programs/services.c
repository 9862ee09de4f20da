// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "services.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "patience.h"
#include "processes.h"
#include "protocol/job.h"
#include "protocol/report.h"

#define MOST_OUTPUT_BYTES (16 << 20) /* of a log that tells why it failed */

static struct {
	pid_t pid;
	int output;
} services[MAX_SERVICES];

static void nap(void)
{
	const struct timespec time = { .tv_nsec = 20000000 };

	nanosleep(&time, NULL);
}

static const char *how_it_ended(int status)
{
	static char how[64];

	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(how, sizeof(how), "ended with status %d", WEXITSTATUS(status));
	return how;
}

int services_print_too_much(const struct job *job)
{
	struct stat status;

	for (unsigned long i = 0; i < job->nr_services; i++)
		if (!fstat(services[i].output, &status) && status.st_size > MOST_OUTPUT_BYTES)
			return report_error("workload",
					    "the service %s has printed more than %d MiB, which take the machine's memory: "
					    "run it by a shell with >/dev/null", job->services[i].words.all[0],
					    MOST_OUTPUT_BYTES >> 20);
	return 0;
}

int services_note_end(const struct job *job, pid_t pid, int status)
{
	for (unsigned long i = 0; i < job->nr_services; i++) {
		if (services[i].pid != pid)
			continue;
		services[i].pid = 0;
		/* One that becomes a daemon ends too, and leaves a child. */
		if (WIFEXITED(status) && !WEXITSTATUS(status))
			return 0;
		return report_program_error(services[i].output, "machine", "the service %s %s", job->services[i].words.all[0],
					    how_it_ended(status));
	}
	return 0;
}

/* Reap what has ended. Returns 1 after reporting that a service failed. */
static int reap(const struct job *job, pid_t waited_for, int *status, int *has_ended)
{
	int one;
	pid_t pid;

	while ((pid = waitpid(-1, &one, WNOHANG)) > 0) {
		if (pid == waited_for) {
			*has_ended = 1;
			*status = one;
		} else if (services_note_end(job, pid, one)) {
			return 1;
		}
	}
	return 0;
}

/* 1: it succeeded; 0: not yet; -1: something failed, and was reported. */
static int succeeds(const struct job *job, const struct words *words, int output, struct patience *patience)
{
	const struct program program = { .words = words, .cpus = job->service_cpus, .outputs = { output, output } };
	pid_t pid = start_program(job, &program);
	int ended = 0, status = 0;

	if (pid < 0)
		return -1;
	while (!ended) {
		if (reap(job, pid, &status, &ended))
			return -1;
		if (!ended && patience_is_over(patience))
			return 0;
		if (!ended)
			nap();
	}
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static int has_written(int output)
{
	return lseek(output, 0, SEEK_END) > 0;
}

static int wait_until_ready(const struct job *job, unsigned long nr, struct patience *patience)
{
	const struct words *ready = &job->services[nr].ready;
	int before = -1, output, done = 0; /* what the last two attempts wrote */

	if (!ready->nr)
		return 0;
	while (!done) {
		output = memfd_create("ready", MFD_CLOEXEC);
		done = succeeds(job, ready, output, patience);
		if (!done && patience_is_over(patience))
			done = -report_program_error(before < 0 || has_written(output) ? output : before, "machine",
						     "the service %s was not ready in %s: %s did not succeed; see --deadline",
						     job->services[nr].words.all[0], job_patience(job), ready->all[0]);
		if (!done)
			nap();
		close(before);
		before = output;
	}
	close(before);
	return done < 0;
}

static int listens(unsigned long port)
{
	const struct sockaddr_in there = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int connected = fd >= 0 && !connect(fd, (const struct sockaddr *)&there, sizeof(there));

	if (fd >= 0)
		close(fd);
	return connected;
}

static int wait_for_ports(const struct job *job, struct patience *patience)
{
	int status, ended;

	for (unsigned long i = 0; i < job->nr_ports; i++) {
		while (!listens(job->ports[i])) {
			if (reap(job, 0, &status, &ended))
				return 1;
			if (patience_is_over(patience))
				return report_program_error(services[0].output, "machine",
							    "nothing listened on port %lu in %s: see --deadline",
							    job->ports[i], job_patience(job));
			nap();
		}
	}
	return 0;
}

static int start(const struct job *job, unsigned long nr)
{
	int output = memfd_create("service", MFD_CLOEXEC);
	const struct program program = {
		.words = &job->services[nr].words,
		.cpus = job->service_cpus,
		.outputs = { output, output },
	};

	if (output < 0)
		return report_error("machine", "cannot keep what a service prints: %m");
	services[nr].output = output;
	services[nr].pid = start_program(job, &program);
	return services[nr].pid < 0;
}

int services_start(const struct job *job)
{
	struct patience patience;

	patience_begin(&patience, job);
	if (job->nr_services)
		report_stage("services");
	for (unsigned long i = 0; i < job->nr_services; i++)
		if (start(job, i) || wait_until_ready(job, i, &patience))
			return 1;
	return wait_for_ports(job, &patience);
}
