// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Blocked time from the scheduler's events in tracefs, with the stack of whoever leaves its CPU: for kernels without
 * BPF or BTF. Every switch is written down, so memory for them ends, and a time is known to a microsecond only.
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
#include "job.h"
#include "report.h"
#include "tasks.h"
#include "tracing.h"

#define SWITCH "events/sched/sched_switch/"
#define SWITCHED_ON "counting is switched on"

/* KiB of each CPU. Tasks that go on for ever fill any: then the first switches are kept. */
#define BOUNDED_BUFFER_KIB "4096"
#define UNBOUNDED_BUFFER_KIB "1024"

/* A switch from one task to another; or, with cpu -1, the moment at which counting was switched on. */
struct event {
	uint64_t us;
	int cpu;
	uint32_t prev, next;
	char state;
	char task[TASK_NAME_BYTES]; /* the name of prev */
	char *path;
};

/* One time that one task was off the CPU; its event is the one at which it left. */
struct absence {
	const struct event *event;
	uint64_t us;
};

static struct event *events;
static size_t nr_events;
static const struct job *job;
static struct blocked_count *counting;

static int prepare(const struct job *asked, struct blocked_count **shared, char why_not[256])
{
	job = asked;
	if (access(TRACING_FOLDER SWITCH "trigger", W_OK)) {
		snprintf(why_not, 256, "%s: %s", TRACING_FOLDER SWITCH "trigger", strerror(errno));
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
	if (tracing_write(SWITCH "trigger", "stacktrace") || tracing_write(SWITCH "enable", "1"))
		return report_error("machine", "cannot trace what the scheduler does: %m");
	return 0;
}

static void count(int on)
{
	tracing_write("tracing_on", on ? "1" : "0");
	if (on)
		tracing_write("trace_marker", SWITCHED_ON);
}

static struct event *new_event(void)
{
	if (!(nr_events & (nr_events - 1))) {
		events = realloc(events, (nr_events ? 2 * nr_events : 1) * sizeof(*events));
		if (!events)
			abort();
	}
	events[nr_events] = (struct event){ .cpu = -1 };
	return &events[nr_events++];
}

/*
 * A line's head ends before `what`: "sh-12 [003] d..2. 52.123456: sched_switch: ". Sets its CPU and its time. Returns
 * what comes after, or NULL where the line is of something else.
 */
static char *parse_head(char *line, const char *what, int *cpu, uint64_t *us)
{
	char *found = strstr(line, what), *word = found;
	unsigned long seconds, fraction;

	if (!found)
		return NULL;
	/* A task's name may have any character in it: backwards, the time, the flags, the CPU. */
	for (int words = 0; words < 3; words++) {
		while (word > line && word[-1] == ' ')
			word--;
		while (word > line && word[-1] != ' ')
			word--;
	}
	if (sscanf(word, "[%d] %*s %lu.%lu", cpu, &seconds, &fraction) != 3)
		return NULL;
	*us = seconds * 1000000ull + fraction;
	return found + strlen(what);
}

static void parse_switch(const char *text, int cpu, uint64_t us)
{
	struct event *event = new_event();
	const char *name = strstr(text, "prev_comm="), *prev = strstr(text, " prev_pid=");
	const char *state = strstr(text, " prev_state="), *next = strstr(text, " next_pid=");

	if (!name || !prev || !state || !next)
		return;
	name += strlen("prev_comm=");
	event->cpu = cpu;
	event->us = us;
	event->state = state[strlen(" prev_state=")];
	event->prev = strtoul(prev + strlen(" prev_pid="), NULL, 10);
	event->next = strtoul(next + strlen(" next_pid="), NULL, 10);
	snprintf(event->task, sizeof(event->task), "%.*s", (int)(prev - name), name);
}

/* Lines " => function" follow, the innermost first. Returns the path; `line` is the one after it. */
static char *read_path(FILE *trace, char **line, size_t *room, ssize_t *length)
{
	char *path = strdup(""), *longer, name[256];

	while ((*length = getline(line, room, trace)) >= 0 && sscanf(*line, " => %255s", name) == 1) {
		if (asprintf(&longer, "%s%s%s", name, *path ? ";" : "", path) < 0)
			abort();
		free(path);
		path = longer;
	}
	return path;
}

static struct event *last_of(int cpu)
{
	for (size_t i = nr_events; i--;)
		if (events[i].cpu == cpu)
			return &events[i];
	return NULL;
}

static int read_events(void)
{
	FILE *trace = fopen(TRACING_FOLDER "trace", "re");
	char *line = NULL, *text;
	size_t room = 0;
	ssize_t length;
	uint64_t us;
	int cpu;

	if (!trace)
		return report_error("machine", "cannot read the trace: %m");
	length = getline(&line, &room, trace);
	while (length >= 0) {
		if ((text = parse_head(line, "sched_switch: ", &cpu, &us))) {
			parse_switch(text, cpu, us);
		} else if (parse_head(line, "<stack trace>", &cpu, &us)) {
			struct event *event = last_of(cpu);
			char *path = read_path(trace, &line, &room, &length);

			if (event && !event->path)
				event->path = path;
			continue;
		} else if (strstr(line, SWITCHED_ON)) {
			new_event();
		}
		length = getline(&line, &room, trace);
	}
	free(line);
	fclose(trace);
	return 0;
}

/*
 * Once a CPU has no room it writes down no switch, and a task that leaves and comes back there seems not to: what
 * follows on any CPU is not used.
 */
static void forget_what_follows_a_loss(void)
{
	uint64_t until = UINT64_MAX;
	size_t kept = 0;

	for (int cpu = 0; cpu < get_nprocs_conf(); cpu++) {
		unsigned long lost = tracing_lost(cpu);
		struct event *last = lost ? last_of(cpu) : NULL;

		counting->lost += lost;
		if (lost && last && last->us < until)
			until = last->us;
	}
	while (kept < nr_events && events[kept].us <= until)
		kept++;
	nr_events = kept;
}

static int is_wanted(const struct event *event, uint64_t us)
{
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
	return us >= job->blocked_min_us;
}

static int compare(const void *one, const void *other)
{
	const struct event *a = ((const struct absence *)one)->event, *b = ((const struct absence *)other)->event;

	if (a->prev != b->prev)
		return a->prev < b->prev ? -1 : 1;
	if (a->state != b->state)
		return a->state - b->state;
	return strcmp(a->path, b->path);
}

/* From the event at which a task left to the next at which it comes, unless counting was off in between. */
static size_t find_absences(struct absence *absences)
{
	struct event **left; /* by pid: where it did, NULL where it is there */
	uint32_t most = 0;
	size_t number = 0;

	for (size_t i = 0; i < nr_events; i++)
		most = events[i].prev > most ? events[i].prev : events[i].next > most ? events[i].next : most;
	left = calloc(most + 1, sizeof(*left));
	if (!left)
		abort();
	for (struct event *event = events; event < events + nr_events; event++) {
		struct event *from = left[event->next];

		if (event->cpu < 0) {
			memset(left, 0, (most + 1) * sizeof(*left));
			continue;
		}
		if (from && is_wanted(from, event->us - from->us))
			absences[number++] = (struct absence){ from, event->us - from->us };
		left[event->next] = NULL;
		if (!event->path)
			event->path = strdup("");
		/* All idle tasks have the number 0; the dead do not come back. */
		if (event->prev && event->state != 'X' && event->state != 'Z')
			left[event->prev] = event;
	}
	free(left);
	qsort(absences, number, sizeof(*absences), compare);
	return number;
}

/* What the events do not tell. A task that has ended is its own process, as far as anybody knows. */
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

/* The first `number` absences are of one row. */
static void report(const struct absence *absences, size_t number)
{
	const struct event *event = absences->event;
	uint32_t histogram[BUCKETS] = { 0 };
	struct blocked_row row = {
		.pid = event->prev,
		.task = event->task,
		.state = event->state,
		.path = event->path,
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
		report_blocked(&row);
}

static int end(void)
{
	struct absence *absences;
	size_t number, first = 0;

	tracing_write(SWITCH "enable", "0");
	tracing_write(SWITCH "trigger", "!stacktrace");
	if (read_events())
		return 1;
	forget_what_follows_a_loss();
	absences = calloc(nr_events + 1, sizeof(*absences));
	if (!absences)
		return report_error("machine", "no memory for %zu switches: %m", nr_events);
	number = find_absences(absences);
	for (size_t i = 1; i <= number; i++) {
		if (i < number && !compare(&absences[first], &absences[i]))
			continue;
		report(&absences[first], i - first);
		first = i;
	}
	free(absences);
	return 0;
}

const struct blocked_way by_events = { "tracefs", prepare, begin, count, end };
