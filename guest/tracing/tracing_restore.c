// SPDX-License-Identifier: GPL-2.0-or-later
#include "tracing.h"

#include <stdio.h>
#include <string.h>

#include "protocol/job.h"
#include "protocol/report.h"

#define NR_FILES (sizeof(files) / sizeof(*files))

/* In the order in which they are put back. */
static const char *const files[] = {
	"current_tracer",
	"options/funcgraph-proc",
	"options/funcgraph-tail",
	"options/funcgraph-overhead",
	"options/funcgraph-duration",
	"options/funcgraph-irqs",
	"options/overwrite",
	"options/markers",
	"trace_clock",
	"buffer_size_kb",
	SWITCH_EVENT "enable",
	"tracing_on",
};

static struct {
	int functions, blocked, watch; /* what the job traces */
	int has_trigger; /* another program's */
	char values[NR_FILES][32]; /* empty: the kernel has no such file */
} before;

/* As it can be written: of a choice what is chosen, and of a buffer its size once anything is traced. */
static void read_value(const char *file, char value[32])
{
	char path[160], line[256] = "";
	const char *choice;
	FILE *text;

	snprintf(path, sizeof(path), TRACING_FOLDER "%s", file);
	value[0] = 0;
	text = fopen(path, "re");
	if (!text)
		return;
	if (fgets(line, sizeof(line), text) && sscanf(line, "%*d (expanded: %31[0-9]", value) != 1) {
		choice = strchr(line, '[');
		/* An event has an asterisk if a trigger listens to it. */
		sscanf(choice ? choice + 1 : line, "%31[^]*\n]", value);
	}
	if (!strcmp(value, "X")) /* buffers of several sizes, which one value cannot give again */
		value[0] = 0;
	fclose(text);
}

int tracing_remember(const struct job *job)
{
	char trigger[32];

	before.functions = job->nr_functions || job->choose_functions;
	before.blocked = !!job->blocked;
	before.watch = job->watch;
	for (size_t i = 0; i < NR_FILES; i++)
		read_value(files[i], before.values[i]);
	read_value(SWITCH_EVENT "trigger", trigger);
	before.has_trigger = *trigger && *trigger != '#'; /* a list of what there could be */
	if (before.functions && before.values[0][0] && strcmp(before.values[0], "nop"))
		return report_error("machine", "this machine traces already: the tracer is %s; to stop it, write nop to %s%s",
				    before.values[0], TRACING_FOLDER, files[0]);
	return 0;
}

static void remove_probe(const char *event)
{
	char text[64];

	snprintf(text, sizeof(text), "events/bigiron/%s/enable", event);
	tracing_write(text, "0");
	snprintf(text, sizeof(text), "-:bigiron/%s\n", event);
	tracing_append("kprobe_events", text);
}

static int restore_value(const char *file, const char *value)
{
	char now[32];

	read_value(file, now);
	if (!*value || !strcmp(now, value) || !tracing_write(file, value))
		return 0;
	return report_error("machine", "%s%s could not be set to %s again: %m", TRACING_FOLDER, file, value);
}

int tracing_restore(void)
{
	int lost = 0;

	if (!before.functions && !before.blocked && !before.watch)
		return 0;
	if (before.functions)
		functions_stop();
	if (before.blocked && !before.has_trigger)
		tracing_write(SWITCH_EVENT "trigger", "!stacktrace");
	if (before.watch) {
		remove_probe("normal");
		remove_probe("expedited");
	}
	for (size_t i = 0; i < NR_FILES; i++)
		lost |= restore_value(files[i], before.values[i]);
	return lost;
}
