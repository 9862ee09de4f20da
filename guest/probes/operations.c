// SPDX-License-Identifier: GPL-2.0-or-later
#include "operations.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "blocked.h"
#include "machine/clock.h"
#include "protocol/report.h"
#include "tracing/tracing.h"

/* A wait for a grace period calls one of these functions; since 6.10 the normal wait has a function of its own. */
static const char *const normal_wait[] = { "synchronize_rcu_normal", "__wait_rcu_gp" };
static const char *const expedited_wait[] = { "synchronize_rcu_expedited" };

struct reading {
	uint64_t nanoseconds;
	uint64_t system_ns;
	long voluntary, involuntary;
	long normal, expedited; /* grace periods; -1: unknown */
};

/* Written by the task, read by the agent. */
static struct operations {
	enum operations_watched watched;
	unsigned long nr_done;
	struct operation {
		int cpu;
		const char *state;
		struct reading usage;
	} done[];
} *operations;

static struct reading began;

int operations_prepare(unsigned long most)
{
	size_t bytes = sizeof(*operations) + most * sizeof(*operations->done);

	operations = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (operations == MAP_FAILED)
		return report_error("machine", "no memory for %lu operations: %m", most);
	return 0;
}

static void probe_first_of(const char *event, const char *const *functions, int count)
{
	char text[128];
	int failed = 1;

	for (int i = 0; i < count && failed; i++) {
		snprintf(text, sizeof(text), "p:bigiron/%s %s\n", event, functions[i]);
		/* A second function of that name would be counted with the first. */
		failed = tracing_append("kprobe_events", text) && errno != EEXIST;
	}
	snprintf(text, sizeof(text), "events/bigiron/%s/enable", event);
	tracing_write(text, "1");
}

void operations_watch(enum operations_watched what)
{
	if (what == WATCH_USAGE) {
		probe_first_of("normal", normal_wait, 2);
		probe_first_of("expedited", expedited_wait, 1);
	}
	if (what != WATCH_NOTHING)
		operations->nr_done = 0;
	operations->watched = what;
}

static void read_grace_periods(struct reading *reading)
{
	FILE *profile = fopen(TRACING_FOLDER "kprobe_profile", "re");
	char event[128];
	long hits;

	reading->normal = reading->expedited = -1;
	while (profile && fscanf(profile, "%127s %ld %*d", event, &hits) == 2) {
		if (!strcmp(event, "normal"))
			reading->normal = hits;
		else if (!strcmp(event, "expedited"))
			reading->expedited = hits;
	}
	if (profile)
		fclose(profile);
}

static void read_usage(struct reading *reading)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	reading->system_ns = usage.ru_stime.tv_sec * 1000000000ull + usage.ru_stime.tv_usec * 1000ull;
	reading->voluntary = usage.ru_nvcsw;
	reading->involuntary = usage.ru_nivcsw;
}

void operation_begin(void)
{
	if (operations->watched == WATCH_FUNCTIONS)
		tracing_write("tracing_on", "1");
	if (operations->watched == WATCH_BLOCKED)
		blocked_count(1);
	if (operations->watched != WATCH_USAGE)
		return;
	read_grace_periods(&began);
	read_usage(&began);
	began.nanoseconds = clock_ns();
}

void operation_end(unsigned long nr, int cpu, const char *state)
{
	struct reading now;

	if (operations->watched == WATCH_FUNCTIONS)
		tracing_write("tracing_on", "0");
	if (operations->watched == WATCH_BLOCKED)
		blocked_count(0);
	if (operations->watched != WATCH_USAGE)
		return;
	now.nanoseconds = clock_ns();
	read_usage(&now);
	read_grace_periods(&now);
	operations->done[nr] = (struct operation){
		.cpu = cpu,
		.state = state,
		.usage = {
			.nanoseconds = now.nanoseconds - began.nanoseconds,
			.system_ns = now.system_ns - began.system_ns,
			.voluntary = now.voluntary - began.voluntary,
			.involuntary = now.involuntary - began.involuntary,
			.normal = now.normal < 0 ? -1 : now.normal - began.normal,
			.expedited = now.expedited < 0 ? -1 : now.expedited - began.expedited,
		},
	};
	operations->nr_done = nr + 1;
}

/* A negative value is not known. */
static void report(unsigned long nr, const struct operation *done)
{
	const struct reading *usage = &done->usage;
	const struct {
		const char *name;
		long value;
	} values[] = {
		{ "operation", nr },
		{ "cpu", done->cpu },
		{ "nanoseconds", usage->nanoseconds },
		{ "system_ns", usage->system_ns },
		{ "voluntary", usage->voluntary },
		{ "involuntary", usage->involuntary },
		{ "grace_periods", usage->normal },
		{ "expedited", usage->expedited },
	};

	WITH_REPORT("operation", out) {
		fprintf(out, "{\"state\":\"%s\"", done->state);
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
			if (values[i].value < 0)
				fprintf(out, ",\"%s\":null", values[i].name);
			else
				fprintf(out, ",\"%s\":%ld", values[i].name, values[i].value);
		fputc('}', out);
	}
}

void operations_report(void)
{
	for (unsigned long nr = 0; nr < operations->nr_done; nr++)
		report(nr, &operations->done[nr]);
}
