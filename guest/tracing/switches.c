// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "switches.h"

#include <stdlib.h>
#include <string.h>

#define MOST_PIDS (1u << 22) /* PID_MAX_LIMIT in include/linux/threads.h */

static struct switch_event *new_event(struct switches *switches)
{
	if (switches->number == switches->room) {
		size_t room = switches->room ? 2 * switches->room : 256;
		struct switch_event *events = realloc(switches->events, room * sizeof(*events));

		if (!events)
			return NULL;
		switches->events = events;
		switches->room = room;
	}
	switches->events[switches->number] = (struct switch_event){ .cpu = -1 };
	return &switches->events[switches->number++];
}

/* The time, the flags and the CPU end before `end`: "sh-12 [003] d..2. 52.123456: ". A task's name may have anything in it. */
static int parse_head(const char *line, const char *end, int *cpu, uint64_t *us)
{
	unsigned long seconds, fraction;

	for (int words = 0; words < 3; words++) {
		while (end > line && end[-1] == ' ')
			end--;
		while (end > line && end[-1] != ' ')
			end--;
	}
	if (sscanf(end, "[%d] %*s %lu.%lu", cpu, &seconds, &fraction) != 3 || *cpu < 0)
		return -1;
	*us = seconds * 1000000ull + fraction;
	return 0;
}

/* Returns what follows `what` in a line of it, after setting its CPU and its time; NULL in a line of something else. */
static const char *parse_line(const char *line, const char *what, int *cpu, uint64_t *us)
{
	for (const char *found = strstr(line, what); found; found = strstr(found + 1, what))
		if (!parse_head(line, found, cpu, us))
			return found + strlen(what);
	return NULL;
}

/* The last `what` before `end`: names before it may have the same in them. */
static const char *find_last(const char *text, const char *end, const char *what)
{
	const char *last = NULL;

	while ((text = strstr(text, what)) && text < end)
		last = text++;
	return last ? last + strlen(what) : NULL;
}

static int parse_pid(const char *text, uint32_t *pid)
{
	unsigned long number = text ? strtoul(text, NULL, 10) : MOST_PIDS;

	*pid = number;
	return number < MOST_PIDS ? 0 : -1;
}

/* "prev_comm=sh prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=cat next_pid=13 next_prio=120". What is not is left out. */
static int parse_switch(struct switches *switches, const char *text, int cpu, uint64_t us)
{
	static const char begin[] = "prev_comm=", prev_pid[] = " prev_pid=";
	const char *middle = strstr(text, " ==> "), *end = text + strlen(text);
	const char *prev = middle ? find_last(text, middle, prev_pid) : NULL;
	const char *state = middle ? find_last(text, middle, " prev_state=") : NULL;
	const char *next = middle ? find_last(middle, end, " next_pid=") : NULL;
	struct switch_event event = { .us = us, .cpu = cpu }, *added;
	int length;

	if (strncmp(text, begin, strlen(begin)) || parse_pid(prev, &event.prev) || parse_pid(next, &event.next) || !state)
		return 0;
	text += strlen(begin);
	length = prev - strlen(prev_pid) - text;
	if (length < 0)
		return 0;
	event.state = *state;
	snprintf(event.task, sizeof(event.task), "%.*s", length, text);
	added = new_event(switches);
	if (!added)
		return -1;
	*added = event;
	return 0;
}

/*
 * Lines " => function" follow, the innermost first. Returns the path, NULL where there is no memory; `line` is the one
 * after it.
 */
static char *read_path(FILE *trace, char **line, size_t *room, ssize_t *length)
{
	char *path = strdup(""), name[256];

	while ((*length = getline(line, room, trace)) >= 0 && sscanf(*line, " => %255s", name) == 1) {
		char *longer = NULL;

		if (path && asprintf(&longer, "%s%s%s", name, *path ? ";" : "", path) < 0)
			longer = NULL;
		free(path);
		path = longer;
	}
	return path;
}

struct switch_event *switches_last(const struct switches *switches, int cpu)
{
	for (size_t i = switches->number; i--;)
		if (switches->events[i].cpu == cpu)
			return &switches->events[i];
	return NULL;
}

static int add_path(struct switches *switches, int cpu, char *path)
{
	struct switch_event *event = switches_last(switches, cpu);

	if (event && !event->path)
		event->path = path;
	else
		free(path);
	return path ? 0 : -1;
}

int switches_read(struct switches *switches, FILE *trace)
{
	char *line = NULL;
	const char *text;
	size_t room = 0;
	ssize_t length = getline(&line, &room, trace);
	int failed = 0, cpu;
	uint64_t us;

	while (length >= 0 && !failed) {
		if (parse_line(line, "<stack trace>", &cpu, &us)) {
			failed = add_path(switches, cpu, read_path(trace, &line, &room, &length));
			continue;
		}
		if ((text = parse_line(line, "sched_switch: ", &cpu, &us)))
			failed = parse_switch(switches, text, cpu, us);
		else if (strstr(line, COUNTING_BEGINS))
			failed = new_event(switches) ? 0 : -1;
		length = getline(&line, &room, trace);
	}
	free(line);
	return failed;
}

void switches_cut(struct switches *switches, uint64_t us)
{
	size_t kept = 0;

	while (kept < switches->number && switches->events[kept].us <= us)
		kept++;
	for (size_t i = kept; i < switches->number; i++)
		free(switches->events[i].path);
	switches->number = kept;
}

void switches_free(struct switches *switches)
{
	for (size_t i = 0; i < switches->number; i++)
		free(switches->events[i].path);
	free(switches->events);
	*switches = (struct switches){ 0 };
}

const char *absence_path(const struct absence *absence)
{
	return absence->event->path ? absence->event->path : "";
}

int compare_absences(const struct absence *one, const struct absence *other)
{
	const struct switch_event *a = one->event, *b = other->event;

	if (a->prev != b->prev)
		return a->prev < b->prev ? -1 : 1;
	if (a->state != b->state)
		return a->state - b->state;
	return strcmp(absence_path(one), absence_path(other));
}

static int by_group_and_time(const void *one, const void *other)
{
	const struct absence *a = one, *b = other;
	int groups = compare_absences(a, b);

	return groups ? groups : (a->event > b->event) - (a->event < b->event);
}

static size_t nr_pids(const struct switches *switches)
{
	uint32_t largest = 0;

	for (size_t i = 0; i < switches->number; i++) {
		const struct switch_event *event = &switches->events[i];
		uint32_t larger = event->prev > event->next ? event->prev : event->next;

		largest = larger > largest ? larger : largest;
	}
	return largest + 1;
}

struct absence *switches_absences(const struct switches *switches, size_t *number)
{
	size_t pids = nr_pids(switches);
	const struct switch_event **left = calloc(pids, sizeof(*left)); /* by pid: where it did, NULL while it is there */
	struct absence *absences = calloc(switches->number + 1, sizeof(*absences));

	*number = 0;
	if (!left || !absences) {
		free(left);
		free(absences);
		return NULL;
	}
	for (size_t i = 0; i < switches->number; i++) {
		const struct switch_event *event = &switches->events[i], *from = left[event->next];

		if (event->cpu < 0) {
			memset(left, 0, pids * sizeof(*left));
			continue;
		}
		if (from && event->us >= from->us)
			absences[(*number)++] = (struct absence){ from, event->us - from->us };
		left[event->next] = NULL;
		/* All idle tasks have the number 0; the dead do not come back. */
		if (event->prev && event->state != 'X' && event->state != 'Z')
			left[event->prev] = event;
	}
	free(left);
	qsort(absences, *number, sizeof(*absences), by_group_and_time);
	return absences;
}
