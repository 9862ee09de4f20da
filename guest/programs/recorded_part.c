// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "recorded_part.h"

#include <regex.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "machine/clock.h"
#include "protocol/job.h"
#include "protocol/recorder.h"
#include "protocol/report.h"

#define LONGEST_LINE 4096
#define SECOND_MS 1000
#define DISK_MS 1 /* by which a clock that follows instructions may jump while the program's files are read */

static struct {
	enum { BEFORE, INSIDE, AFTER } place;
	uint64_t started, began, ended; /* by the clock */
	regex_t begin_at, end_at;
	int held_back; /* the line to begin at came together with the part's end */
	struct {
		char text[LONGEST_LINE + 1];
		size_t length;
	} lines[2]; /* what each output has of a line that is not whole yet */
} part;

static int compile(regex_t *pattern, const char *text)
{
	char error[128];
	int failed;

	if (!text)
		return 0;
	failed = regcomp(pattern, text, REG_EXTENDED | REG_NOSUB);
	if (!failed)
		return 0;
	regerror(failed, pattern, error, sizeof(error));
	return report_error("job", "'%s' is no regular expression: %s", text, error);
}

static int is_whole(const struct job *job)
{
	return !job->begin_at && !job->warm_up_ms && !job->marked;
}

int part_prepare(const struct job *job)
{
	if (compile(&part.begin_at, job->begin_at) || compile(&part.end_at, job->end_at))
		return 1;
	if (job->record)
		record_program(job->record);
	return 0;
}

void (*part_before(const struct job *job))(void)
{
	return job->record && is_whole(job) ? record_program_begin : NULL;
}

int part_follows_output(const struct job *job)
{
	return job->begin_at || job->end_at;
}

void part_started(const struct job *job)
{
	part.started = clock_ns();
	if (is_whole(job)) {
		part.place = INSIDE;
		part.began = part.started;
	}
}

static void begin(void)
{
	part.place = INSIDE;
	part.began = clock_ns();
	record_program_begin();
}

static void end(void)
{
	record_program_end();
	part.place = AFTER;
	part.ended = clock_ns();
}

static void see_line(const struct job *job, const char *line)
{
	if (part.place == BEFORE && job->begin_at && !regexec(&part.begin_at, line, 0, NULL, 0))
		begin();
	else if (part.place == INSIDE && job->end_at && !regexec(&part.end_at, line, 0, NULL, 0))
		end();
}

static void end_line(const struct job *job, int output)
{
	part.lines[output].text[part.lines[output].length] = 0;
	part.lines[output].length = 0;
	see_line(job, part.lines[output].text);
}

/* A line ends with a carriage return too: progress that is printed over itself has nothing else. */
void part_sees(const struct job *job, int output, const char *bytes, size_t length)
{
	size_t *there = &part.lines[output].length;
	int before = part.place == BEFORE;

	for (size_t i = 0; i < length; i++) {
		if (bytes[i] == '\n' || bytes[i] == '\r' || *there == LONGEST_LINE)
			end_line(job, output);
		else
			part.lines[output].text[(*there)++] = bytes[i];
	}
	if (!length && *there)
		end_line(job, output);
	part.held_back |= before && (part.place == AFTER || (!length && part.place == INSIDE));
}

static uint64_t begins_at(const struct job *job)
{
	return part.place == BEFORE && job->warm_up_ms ? part.started + job->warm_up_ms * 1000000ull : UINT64_MAX;
}

static uint64_t ends_at(const struct job *job)
{
	return part.place == INSIDE && job->record_ms ? part.began + job->record_ms * 1000000ull : UINT64_MAX;
}

int part_ms_to_look(const struct job *job)
{
	uint64_t next = begins_at(job), now = clock_ns();
	uint64_t most = part.place == BEFORE && job->dilated ? DISK_MS : SECOND_MS;

	if (ends_at(job) < next)
		next = ends_at(job);
	if (next <= now)
		return 0;
	return next - now < most * 1000000ull ? (next - now) / 1000000 + 1 : most;
}

int part_looks(const struct job *job)
{
	if (clock_ns() >= begins_at(job))
		begin();
	if (clock_ns() >= ends_at(job))
		end();
	return part.place == AFTER;
}

int part_end(const struct job *job, int output)
{
	int never_ended;

	/* Of an output that another process still has open, the end was not seen. */
	for (int i = 0; i < 2; i++)
		part_sees(job, i, NULL, 0);
	never_ended = part.place == INSIDE;
	if (never_ended)
		end();
	if (job->record)
		recorder_mark(MARK_DISARM, NULL, 0);
	if (part.held_back)
		return report_program_error(output, "machine", "the line that matches '%s' came too late, as programs hold back "
					    "what they print to a pipe: let this one flush it, run it by stdbuf -oL, or "
					    "use --warm-up or --marked", job->begin_at);
	if (part.place == BEFORE && job->begin_at)
		return report_program_error(output, "machine", "the command ended and printed no line that matches '%s': see "
					    "--begin-at", job->begin_at);
	if (never_ended && job->end_at)
		return report_program_error(output, "machine", "the command ended and then printed no line that matches '%s': "
					    "see --end-at", job->end_at);
	if (part.place == BEFORE && job->warm_up_ms)
		return report_program_error(output, "machine", "the command ended in less than its warm-up of %g s",
					    job->warm_up_ms / 1e3);
	if (never_ended && job->record_ms)
		return report_program_error(output, "machine", "the command ended after %.3g s of its recorded part of %g s",
					    (part.ended - part.began) / 1e9, job->record_ms / 1e3);
	if (job->record && !job->marked)
		report_recorded(part.ended - part.began);
	return 0;
}
