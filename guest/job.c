// SPDX-License-Identifier: GPL-2.0-or-later
#include "job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recorder.h"
#include "report.h"

static int job_line(struct job *job, const char *key, const char *value)
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
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (!strcmp(key, numbers[i].key)) {
			*numbers[i].number = strtoul(value, NULL, 10);
			return 0;
		}
	}
	if (!strcmp(key, "record") && !strcmp(value, "conflicts"))
		job->record |= RECORD_CONFLICTS;
	else if (!strcmp(key, "record") && !strcmp(value, "work"))
		job->record |= RECORD_WORK;
	else if (!strcmp(key, "record") && !strcmp(value, "user"))
		job->record |= RECORD_USER;
	else if (!strcmp(key, "record") && !strcmp(value, "locks"))
		job->record |= RECORD_LOCKS;
	else if (!strcmp(key, "watch"))
		job->watch = 1;
	else if (!strcmp(key, "blocked"))
		job->blocked = strdup(value);
	else if (!strcmp(key, "efficiency"))
		job->efficiency = strdup(value);
	else if (!strcmp(key, "oncpu"))
		job->oncpu = strdup(value);
	else if (!strcmp(key, "choose_functions"))
		job->choose_functions = 1;
	else if (!strcmp(key, "blocked_user"))
		job->blocked_user = 1;
	else if (!strcmp(key, "allow_hotplug"))
		job->allow_hotplug = 1;
	else if (!strcmp(key, "mode"))
		job->threads = !strcmp(value, "thread");
	else if (!strcmp(key, "symbols"))
		job->symbols = 1;
	else if (!strcmp(key, "turns"))
		job->turns = 1;
	else if (!strcmp(key, "stay"))
		job->stay = 1;
	else if (!strcmp(key, "set") && job->nr_settings < MAX_SETTINGS)
		job->settings[job->nr_settings++] = strdup(value);
	else if (!strcmp(key, "function") && job->nr_functions < MAX_FUNCTIONS)
		job->functions[job->nr_functions++] = strdup(value);
	else if (!strcmp(key, "word") && job->nr_words < MAX_WORDS)
		job->words[job->nr_words++] = strdup(value);
	else if (!strcmp(key, "read") && job->nr_reads < MAX_READS)
		job->reads[job->nr_reads++] = strdup(value);
	else
		return report_error("job", "the agent does not know '%s %s'", key, value);
	return 0;
}

int job_read(struct job *job, const char *path)
{
	FILE *file = fopen(path, "re");
	char line[4096];
	int failed = 0;

	if (!file)
		return report_error("job", "cannot open the job %s: %m", path);
	*job = (struct job){ .patience_s = 60 };
	while (!failed && fgets(line, sizeof(line), file)) {
		char *value = strchr(line, ' ');

		line[strcspn(line, "\n")] = 0;
		if (value)
			*value++ = 0;
		failed = job_line(job, line, value ? value : "");
	}
	fclose(file);
	return failed;
}
