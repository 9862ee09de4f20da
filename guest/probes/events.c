// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Blocked time from the scheduler's events in tracefs, with the stack of the task that leaves its CPU: for kernels without
 * BPF or BTF. Every switch is recorded, so the buffer fills up. Times have a resolution of one microsecond.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "blocked.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "tasks/tasks.h"
#include "tracing/switches.h"
#include "tracing/tracing.h"

/* Each CPU's buffer, in KiB. Unbounded tasks fill any buffer: then the first switches are kept. */
#define BOUNDED_BUFFER_KIB "4096"
#define UNBOUNDED_BUFFER_KIB "1024"

static struct switches switches;
static const struct job *job;
static struct blocked_count *counting;

static int prepare(const struct job *blocked_job, struct blocked_count **shared, char why_not[256])
{
	job = blocked_job;
	if (access(TRACING_FOLDER SWITCH_EVENT "trigger", W_OK)) {
		snprintf(why_not, 256, "%s: %s", TRACING_FOLDER SWITCH_EVENT "trigger", strerror(errno));
		return -1;
	}
	counting = mmap(NULL, sizeof(*counting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (counting == MAP_FAILED)
		return report_error("machine", "no memory to share: %m");
	*shared = counting;
	return 0;
}

static int begin(void)
{
	tracing_write("tracing_on", "0");
	tracing_write("current_tracer", "nop");
	tracing_write("options/overwrite", "0");
	tracing_write("options/markers", "1");
	tracing_write("trace_clock", "mono");
	if (tracing_write("buffer_size_kb", workload_is_bounded() ? BOUNDED_BUFFER_KIB : UNBOUNDED_BUFFER_KIB))
		return report_error("machine", "cannot get memory to trace into: %m");
	tracing_write("trace", "");
	if (tracing_write(SWITCH_EVENT "trigger", "stacktrace") || tracing_write(SWITCH_EVENT "enable", "1"))
		return report_error("machine", "cannot trace what the scheduler does: %m");
	return 0;
}

static void count(int on)
{
	tracing_write("tracing_on", on ? "1" : "0");
	if (on)
		tracing_write("trace_marker", COUNTING_BEGINS);
}

static int read_events(void)
{
	FILE *trace = fopen(TRACING_FOLDER "trace", "re");
	int failed;

	if (!trace)
		return report_error("machine", "cannot read the trace: %m");
	failed = switches_read(&switches, trace);
	fclose(trace);
	return failed ? report_error("machine", "no memory for the scheduler's events: %m") : 0;
}

/*
 * A CPU whose buffer is full records no switch. A task that leaves and comes back there then seems not to leave. So events
 * after that, on any CPU, are not used.
 */
static void forget_what_follows_a_loss(void)
{
	uint64_t until = UINT64_MAX;

	for (int cpu = 0; cpu < get_nprocs_conf(); cpu++) {
		unsigned long lost = tracing_lost(cpu);
		const struct switch_event *last = lost ? switches_last(&switches, cpu) : NULL;

		counting->lost += lost;
		if (lost && last && last->us < until)
			until = last->us;
	}
	switches_cut(&switches, until);
}

static int is_selected(const struct absence *absence)
{
	const struct switch_event *event = absence->event;
	unsigned int bits[] = { ['R'] = STATE_PREEMPTED, ['S'] = 1, ['D'] = 2, ['I'] = STATE_IDLE, ['T'] = 4,
				['t'] = 8, ['X'] = 16, ['Z'] = 32, ['P'] = 64 };
	unsigned char letter = event->state;
	unsigned int state = letter < sizeof(bits) / sizeof(*bits) ? bits[letter] : 0;

	if (event->prev == (uint32_t)getpid() || event->prev == (uint32_t)getppid())
		return 0;
	if (job->blocked_pid && event->prev != job->blocked_pid)
		return 0;
	if (job->blocked_states && !(state & job->blocked_states))
		return 0;
	return absence->us >= job->blocked_min_us;
}

/* Not in the events. A task that has ended is taken for a process of its own. */
static uint32_t process_of(uint32_t pid)
{
	char path[40], line[256];
	uint32_t tgid = pid;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Tgid: %u", &tgid);
	if (file)
		fclose(file);
	return tgid;
}

/* The first `number` absences make one row. */
static void report(const struct absence *absences, size_t number)
{
	const struct switch_event *event = absences->event;
	uint32_t histogram[BUCKETS] = { 0 };
	struct blocked_row row = {
		.pid = event->prev,
		.task = event->task,
		.state = event->state,
		.path = absence_path(absences),
		.user_path = "",
		.count = number,
		.histogram = histogram,
	};

	for (size_t i = 0; i < number; i++) {
		uint64_t ns = absences[i].us * 1000;

		row.total_ns += ns;
		if (ns > row.max_ns)
			row.max_ns = ns;
		histogram[blocked_bucket(ns)]++;
	}
	row.tgid = process_of(row.pid);
	if (!job->blocked_tgid || row.tgid == job->blocked_tgid)
		blocked_report(&row);
}

static int end(void)
{
	struct absence *absences;
	size_t number, selected = 0, first = 0;

	tracing_write(SWITCH_EVENT "enable", "0");
	tracing_write(SWITCH_EVENT "trigger", "!stacktrace");
	if (read_events())
		return 1;
	forget_what_follows_a_loss();
	absences = switches_absences(&switches, &number);
	if (!absences)
		return report_error("machine", "no memory for %zu switches: %m", switches.number);
	for (size_t i = 0; i < number; i++)
		if (is_selected(&absences[i]))
			absences[selected++] = absences[i];
	for (size_t i = 1; i <= selected; i++) {
		if (i < selected && !compare_absences(&absences[first], &absences[i]))
			continue;
		report(&absences[first], i - first);
		first = i;
	}
	free(absences);
	return 0;
}

const struct blocked_way blocked_by_events = { "tracefs", prepare, begin, count, end };
