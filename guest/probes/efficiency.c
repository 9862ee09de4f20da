// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "efficiency.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>

#include "machine/affinity.h"
#include "machine/clock.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "tasks/task_kind.h"
#include "tasks/tasks.h"

/* The kernel's own accounts: in ticks, and what the scheduler knows to the nanosecond. */
static const char *const accounts[] = { "/proc/stat", "/proc/schedstat" };

#define NR_ACCOUNTS 2

#define END_AHEAD_NS 100000 /* longer than it takes to set, much shorter than the measurement */

/* Reporting them takes time, and waits until all is measured. NULL: the kernel does not keep the account. */
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

/* A CPU charges what it does when that changes: run on each CPU once, so that it does. */
static void visit_all_cpus(void)
{
	struct cpus before;

	if (allowed_cpus(&before))
		return;
	for (int cpu = 0; cpu < get_nprocs_conf(); cpu++)
		pin(0, cpu);
	allow_cpus(&before);
}

/* The end is set in advance, so that no CPU charges time after it. An end that was set too late is moved. */
static uint64_t end_count(uint64_t began)
{
	uint64_t end;

	for (uint64_t ahead = END_AHEAD_NS;; ahead *= 2) {
		end = clock_ns() + ahead;
		cpu_time_by_bpf.count(began, end);
		if (clock_ns() < end)
			break;
	}
	while (clock_ns() < end)
		;
	return end;
}

void cpu_time_report(const struct cpu_time_row *row)
{
	WITH_REPORT("share", out) {
		fprintf(out, "{\"cpu\":%u,\"kind\":\"%s\",\"name\":", row->cpu, row->kind ? row->kind : task_kind(row->pid));
		json_string(out, row->name);
		fprintf(out, ",\"ns\":%lu,\"times\":%lu}", row->ns, row->times);
	}
}

/* Returns 0, 1 after reporting an error, or -1 with the reason in `why_not` if BPF cannot be used. */
static int begin_bpf(const struct job *job, char why_not[256])
{
	int failed;

	snprintf(why_not, 256, "the agent was made without it");
	if (!&cpu_time_by_bpf)
		return -1;
	snprintf(why_not, 256, OTHER_NUMBERS);
	if (!kernel_numbers_tasks_alike())
		return -1;
	/* All CPUs are interrupted several times for each event that is traced from now on. */
	gather_tasks(job);
	failed = cpu_time_by_bpf.begin(job, why_not);
	if (!failed)
		why_not[0] = 0;
	return failed;
}

int cpu_time_measure(const struct job *job)
{
	const struct timespec time = { job->efficiency_ms / 1000, job->efficiency_ms % 1000 * 1000000 };
	uint64_t before[job->tasks], after[job->tasks], began, ended, lost = 0;
	char *accounts_before[NR_ACCOUNTS], *accounts_after[NR_ACCOUNTS], why_not_bpf[256];
	int without_bpf;

	report_stage("efficiency");
	without_bpf = begin_bpf(job, why_not_bpf);
	spread_tasks(job);
	if (without_bpf > 0 || read_accounts(accounts_before))
		return 1;
	read_operations(before, job->tasks);
	began = clock_ns();
	if (!without_bpf)
		cpu_time_by_bpf.count(began, 0);
	nanosleep(&time, NULL);
	ended = without_bpf ? clock_ns() : end_count(began);
	read_operations(after, job->tasks);
	visit_all_cpus();
	if (read_accounts(accounts_after) || (!without_bpf && cpu_time_by_bpf.end(&lost)))
		return 1;
	for (unsigned long i = 0; i < job->tasks; i++)
		after[i] -= before[i];
	WITH_REPORT("efficiency_summary", out) {
		fprintf(out, "{\"why_not_bpf\":");
		json_string(out, why_not_bpf);
		fprintf(out, ",\"nanoseconds\":%lu,\"lost\":%lu,", ended - began, lost);
		json_operations(out, after, job->tasks);
		fputc('}', out);
	}
	report_accounts(accounts_before);
	report_accounts(accounts_after);
	return report_dead_task(job);
}

void cpu_time_end(void)
{
	if (&cpu_time_by_bpf)
		cpu_time_by_bpf.detach();
}
