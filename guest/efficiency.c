// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "efficiency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "affinity.h"
#include "clock.h"
#include "job.h"
#include "report.h"
#include "tasks.h"

/* The kernel's own accounts: in ticks, and what the scheduler knows to the nanosecond. */
static const char *const accounts[] = { "/proc/stat", "/proc/schedstat" };

#define NR_ACCOUNTS 2

#define END_AHEAD_NS 100000 /* longer than setting it takes, and little beside what is measured */

/* To report them takes time, so that is left until all is measured. NULL for one that the kernel does not keep. */
static int read_accounts(char *texts[NR_ACCOUNTS])
{
	for (int i = 0; i < NR_ACCOUNTS; i++) {
		FILE *file = fopen(accounts[i], "re");
		size_t room = 0;
		ssize_t length;

		texts[i] = NULL;
		if (!file)
			continue;
		length = getdelim(&texts[i], &room, '\0', file);
		fclose(file);
		if (length < 0)
			return report_error("machine", "cannot read %s: %m", accounts[i]);
	}
	return 0;
}

static void report_accounts(char *texts[NR_ACCOUNTS])
{
	for (int i = 0; i < NR_ACCOUNTS; i++) {
		FILE *text = texts[i] ? fmemopen(texts[i], strlen(texts[i]), "r") : NULL;

		if (!text)
			continue;
		report_lines(accounts[i], text);
		fclose(text);
		free(texts[i]);
	}
}

/* What a CPU does is charged when it changes: go to each, so that all have an end. */
static void visit_all_cpus(void)
{
	struct cpus before;

	if (allowed_cpus(&before))
		return;
	for (int cpu = 0; cpu < get_nprocs_conf(); cpu++)
		pin(0, cpu);
	allow_cpus(&before);
}

/* The end is set before it comes, so that no CPU charges past it; one that was set too late is put off. */
static uint64_t end_count(uint64_t began)
{
	uint64_t end;

	for (uint64_t ahead = END_AHEAD_NS;; ahead *= 2) {
		end = clock_ns() + ahead;
		shares_count(began, end);
		if (clock_ns() < end)
			break;
	}
	while (clock_ns() < end)
		;
	return end;
}

int efficiency(const struct job *job)
{
	const struct timespec time = { job->efficiency_ms / 1000, job->efficiency_ms % 1000 * 1000000 };
	uint64_t before[job->tasks], after[job->tasks], began, ended;
	char why_not[256] = "the agent was made without it";
	struct efficiency_summary summary = { .why_not_bpf = why_not, .operations = after, .tasks = job->tasks };
	char *accounts_before[NR_ACCOUNTS], *accounts_after[NR_ACCOUNTS];
	int without_bpf = -1;

	report_stage("efficiency");
	if (&shares_begin) {
		/* With each event that is to be followed, all CPUs are interrupted some times. */
		gather_tasks(job);
		without_bpf = shares_begin(job, why_not);
		spread_tasks(job);
	}
	if (without_bpf > 0 || read_accounts(accounts_before))
		return 1;
	read_operations(before, job->tasks);
	began = clock_ns();
	if (!without_bpf)
		shares_count(began, 0);
	nanosleep(&time, NULL);
	ended = without_bpf ? clock_ns() : end_count(began);
	summary.nanoseconds = ended - began;
	read_operations(after, job->tasks);
	visit_all_cpus();
	if (read_accounts(accounts_after))
		return 1;
	if (!without_bpf) {
		why_not[0] = 0;
		if (shares_end(&summary.lost))
			return 1;
	}
	for (unsigned long i = 0; i < job->tasks; i++)
		after[i] -= before[i];
	report_efficiency_summary(&summary);
	report_accounts(accounts_before);
	report_accounts(accounts_after);
	return report_dead_task(job);
}

void efficiency_end(void)
{
	if (&shares_detach)
		shares_detach();
}
