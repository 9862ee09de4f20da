// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "recorder.h"

/* What the functions below return: NULL, or why the agent refuses a line. */
#define TOO_MANY "takes no more lines such as"
#define NO_MEMORY "has no memory for"
#define UNKNOWN "does not know"
#define NO_NUMBER "finds no number in"
#define TOO_LONG "takes no value of more than 4000 bytes, as in"
#define HAS_NUL "takes no NUL, as in"

static const char *set_number(unsigned long *number, const char *value)
{
	char *end;

	errno = 0;
	*number = strtoul(value, &end, 10);
	return *value >= '0' && *value <= '9' && !*end && !errno ? NULL : NO_NUMBER;
}

static const char *set_text(char **text, const char *value)
{
	free(*text);
	*text = strdup(value);
	return *text ? NULL : NO_MEMORY;
}

static const char *add_text(char **texts, unsigned long *number, unsigned long most, const char *value)
{
	if (*number == most)
		return TOO_MANY;
	texts[*number] = NULL;
	return set_text(&texts[(*number)++], value);
}

static const char *add_word(struct words *words, const char *value)
{
	return add_text(words->all, &words->nr, MAX_WORDS, value);
}

/* The words that follow are the service's. */
static const char *add_service(struct job *job)
{
	if (job->nr_services == MAX_SERVICES)
		return TOO_MANY;
	job->nr_services++;
	return NULL;
}

static const char *add_service_word(struct job *job, const char *key, const char *value)
{
	struct service *service = &job->services[job->nr_services - 1];

	if (!job->nr_services)
		return UNKNOWN;
	return add_word(!strcmp(key, "ready_word") ? &service->ready : &service->words, value);
}

static const char *add_port(struct job *job, const char *value)
{
	if (job->nr_ports == MAX_SERVICES)
		return TOO_MANY;
	return set_number(&job->ports[job->nr_ports++], value);
}

static const char *set_mode(struct job *job, const char *value)
{
	job->threads = !strcmp(value, "thread");
	return job->threads || !strcmp(value, "process") ? NULL : UNKNOWN;
}

static const char *add_record(struct job *job, const char *value)
{
	static const struct {
		const char *name;
		enum recorder_what what;
	} all[] = {
		{ "conflicts", RECORD_CONFLICTS },
		{ "instructions", RECORD_INSTRUCTIONS },
		{ "user", RECORD_USER },
		{ "locks", RECORD_LOCKS },
		{ "trace", RECORD_TRACE },
		{ "layout", RECORD_LAYOUT },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (!strcmp(value, all[i].name)) {
			job->record |= all[i].what;
			return NULL;
		}
	}
	return UNKNOWN;
}

static unsigned long *number_of(struct job *job, const char *key)
{
	const struct {
		const char *key;
		unsigned long *number;
	} numbers[] = {
		{ "cpus", &job->cpus },		  { "tasks", &job->tasks },
		{ "warmup", &job->warmup },	  { "samples", &job->samples },
		{ "sample_ms", &job->sample_ms }, { "operations", &job->operations },
		{ "patience_s", &job->patience_s }, { "cpus_to_cycle", &job->cpus_to_cycle },
		{ "depth", &job->depth },	  { "blocked_min_us", &job->blocked_min_us },
		{ "blocked_states", &job->blocked_states }, { "blocked_pid", &job->blocked_pid },
		{ "blocked_tgid", &job->blocked_tgid }, { "efficiency_ms", &job->efficiency_ms },
		{ "oncpu_ms", &job->oncpu_ms },	  { "oncpu_period_us", &job->oncpu_period_us },
		{ "disk_mib", &job->disk_mib },	  { "dilated", &job->dilated },
		{ "slowed", &job->slowed },	  { "copies", &job->copies },
		{ "time_slice_operations", &job->time_slice_operations }, { "time_slice_seed", &job->time_slice_seed },
		{ "time_slice_instructions", &job->time_slice_instructions },
		{ "warm_up_ms", &job->warm_up_ms }, { "record_ms", &job->record_ms },
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (!strcmp(key, numbers[i].key))
			return numbers[i].number;
	return NULL;
}

static int *flag_of(struct job *job, const char *key)
{
	const struct {
		const char *key;
		int *flag;
	} flags[] = {
		{ "watch", &job->watch },	{ "choose_functions", &job->choose_functions },
		{ "blocked_user", &job->blocked_user }, { "allow_hotplug", &job->allow_hotplug },
		{ "stay", &job->stay },		{ "time_slices", &job->time_slices },
		{ "in_root", &job->in_root },	{ "marked", &job->marked },
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (!strcmp(key, flags[i].key))
			return flags[i].flag;
	return NULL;
}

static char **text_of(struct job *job, const char *key)
{
	const struct {
		const char *key;
		char **text;
	} texts[] = {
		{ "blocked", &job->blocked }, { "efficiency", &job->efficiency }, { "oncpu", &job->oncpu },
		{ "cgroup", &job->cgroup },   { "file_system", &job->file_system }, { "mount_options", &job->mount_options },
		{ "tests", &job->tests },     { "user", &job->user },	{ "folder", &job->folder },
		{ "command_cpus", &job->command_cpus }, { "service_cpus", &job->service_cpus },
		{ "begin_at", &job->begin_at }, { "end_at", &job->end_at },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (!strcmp(key, texts[i].key))
			return texts[i].text;
	return NULL;
}

static const char *add_line(struct job *job, const char *key, const char *value)
{
	if (number_of(job, key))
		return set_number(number_of(job, key), value);
	if (text_of(job, key))
		return set_text(text_of(job, key), value);
	if (flag_of(job, key)) {
		*flag_of(job, key) = 1;
		return NULL;
	}
	if (!strcmp(key, "mode"))
		return set_mode(job, value);
	if (!strcmp(key, "record"))
		return add_record(job, value);
	if (!strcmp(key, "module"))
		return add_text(job->modules, &job->nr_modules, MAX_MODULES, value);
	if (!strcmp(key, "set"))
		return add_text(job->settings, &job->nr_settings, MAX_SETTINGS, value);
	if (!strcmp(key, "function"))
		return add_text(job->functions, &job->nr_functions, MAX_FUNCTIONS, value);
	if (!strcmp(key, "word"))
		return add_word(&job->command, value);
	if (!strcmp(key, "service"))
		return add_service(job);
	if (!strcmp(key, "service_word") || !strcmp(key, "ready_word"))
		return add_service_word(job, key, value);
	if (!strcmp(key, "ready_port"))
		return add_port(job, value);
	if (!strcmp(key, "env"))
		return add_text(job->variables, &job->nr_variables, MAX_VARIABLES, value);
	if (!strcmp(key, "read"))
		return add_text(job->reads, &job->nr_reads, MAX_READS, value);
	return UNKNOWN;
}

static const char *read_line(struct job *job, char *line, size_t length)
{
	char *value;

	if (strlen(line) < length)
		return HAS_NUL;
	value = strchr(line, ' ');
	if (value)
		*value++ = 0;
	if (value && strlen(value) > MAX_VALUE_BYTES)
		return TOO_LONG;
	return add_line(job, line, value ? value : "");
}

int job_read(struct job *job, FILE *text, char error[JOB_ERROR_BYTES])
{
	const char *wrong = NULL;
	char *line = NULL;
	size_t room = 0;
	ssize_t length;

	memset(job, 0, sizeof(*job));
	job->patience_s = 60;
	while (!wrong && (length = getline(&line, &room, text)) >= 0) {
		if (line[length - 1] == '\n')
			line[--length] = 0;
		wrong = read_line(job, line, length);
		if (wrong) /* the key ends where its value began */
			snprintf(error, JOB_ERROR_BYTES, "the agent %s '%.24s %.60s'", wrong, line,
				 strlen(line) < (size_t)length ? line + strlen(line) + 1 : "");
	}
	free(line);
	return !!wrong;
}

uint64_t job_dilated_ns(const struct job *job, uint64_t ns)
{
	unsigned long times = job->dilated ? job->dilated : job->slowed;

	return times ? ns / times : ns;
}

const char *job_patience(const struct job *job)
{
	unsigned long times = job->dilated ? job->dilated : job->slowed;
	static char text[64];

	if (times)
		snprintf(text, sizeof(text), "%.3g s of VM time", (double)job->patience_s / times);
	else
		snprintf(text, sizeof(text), "%lu s", job->patience_s);
	return text;
}

const char *job_patience_unit(const struct job *job)
{
	return job->dilated ? "billion instructions of all CPUs" : "s";
}
