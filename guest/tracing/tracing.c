// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "tracing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "hot_functions.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "tasks/tasks.h"

#define CALIBRATION_CALLS 2000
#define CALIBRATION_FUNCTION "*sys_getppid"
#define MAX_ROUNDS 16 /* of choice: no call path that matters is deeper */

/* Each CPU's trace buffer, in KiB. Unbounded tasks fill any buffer: then each CPU keeps its first calls. */
#define BOUNDED_BUFFER_KIB "4096"
#define UNBOUNDED_BUFFER_KIB "64"

static unsigned long cost_of_a_call_ns;
static int absent[MAX_FUNCTIONS];
static struct hot_functions hot_functions;
static int nr_rounds; /* of choice */

static int open_to_write(const char *file, int flags)
{
	char path[160];

	snprintf(path, sizeof(path), TRACING_FOLDER "%s", file);
	return open(path, O_WRONLY | O_CLOEXEC | flags);
}

static int write_to(const char *file, const char *text, int flags)
{
	int fd = open_to_write(file, flags), failed;

	if (fd < 0)
		return -1;
	failed = write(fd, text, strlen(text)) < 0;
	close(fd);
	return failed ? -1 : 0;
}

int tracing_write(const char *file, const char *text)
{
	return write_to(file, text, O_TRUNC);
}

int tracing_append(const char *file, const char *text)
{
	return write_to(file, text, O_APPEND);
}

static unsigned long calls_take_ns(void)
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < CALIBRATION_CALLS; i++)
		getppid();
	clock_gettime(CLOCK_MONOTONIC, &to);
	return (to.tv_sec - from.tv_sec) * 1000000000l + to.tv_nsec - from.tv_nsec;
}

/*
 * Switching the tracer on changes the code of every kernel function that it is to trace: of all, it takes seconds in an
 * emulator, so it is done once.
 */
static int start_tracer(bool alone)
{
	unsigned long without = calls_take_ns(), with;

	tracing_write("max_graph_depth", "1");
	/* A run on this machine that was killed has left its own. */
	tracing_write("set_ftrace_filter", alone ? CALIBRATION_FUNCTION "\n" : "");
	tracing_write("set_graph_function", alone ? "" : CALIBRATION_FUNCTION "\n");
	if (tracing_write("current_tracer", "function_graph"))
		return report_error("machine", "cannot trace functions: %m");
	tracing_write("tracing_on", "1");
	with = calls_take_ns();
	tracing_write("tracing_on", "0");
	cost_of_a_call_ns = with > without ? (with - without) / CALIBRATION_CALLS : 0;
	return 0;
}

/* Without the limits either: the next tracer sets its own. */
void functions_stop(void)
{
	tracing_write("current_tracer", "nop");
	tracing_write("set_ftrace_filter", "");
	tracing_write("set_graph_function", "");
	tracing_write("set_ftrace_notrace_pid", "");
	tracing_write("max_graph_depth", "0");
}

/*
 * To name other functions in a file: opened so, it names none; new ones count when it is closed (before 4.11, those of
 * set_graph_function at once). So the kernel changes the code of what set_ftrace_filter names once, and not with each
 * name, which beside tasks that run takes seconds in an emulator.
 */
static int open_names(const char *file)
{
	return open_to_write(file, O_TRUNC);
}

/* Returns whether the kernel has such a function. */
static bool add_name(int fd, const char *function)
{
	char name[256];

	/* It is looked up when the white space after it is written. */
	snprintf(name, sizeof(name), "%s\n", function);
	return write(fd, name, strlen(name)) > 0;
}

/* Whether only calls of named functions are traced, wherever they are made, and the kernel can be told so. */
static bool traces_named_alone(const struct job *job)
{
	return !job->choose_functions && job->depth == 1 && !access(TRACING_FOLDER "set_ftrace_filter", W_OK);
}

static int trace_named(const struct job *job, bool alone)
{
	unsigned long nr_absent = 0;
	int fd;

	/* Off, or the code of all functions is changed where none is named. */
	if (alone)
		tracing_write("current_tracer", "nop");
	fd = open_names(alone ? "set_ftrace_filter" : "set_graph_function");
	if (fd < 0)
		return report_error("machine", "cannot name functions to trace: %m");
	for (unsigned long i = 0; i < job->nr_functions; i++) {
		absent[i] = !add_name(fd, job->functions[i]);
		nr_absent += absent[i];
	}
	close(fd);
	if (nr_absent == job->nr_functions)
		return report_error("workload", "the kernel has none of the functions to trace, such as %s",
				    job->functions[0]);
	if (alone && tracing_write("current_tracer", "function_graph"))
		return report_error("machine", "cannot trace functions: %m");
	tracing_write("trace", "");
	return 0;
}

/* Trace from where tasks other than the agent enter the kernel. */
static int trace_roots(void)
{
	int number, found = 0, fd;
	const char *const *roots = hot_functions_roots(&number);
	char pid[24];

	snprintf(pid, sizeof(pid), "%d", getpid());
	tracing_write("set_ftrace_notrace_pid", pid);
	fd = open_names("set_graph_function");
	for (int i = 0; i < number; i++)
		found += add_name(fd, roots[i]);
	close(fd);
	if (!found)
		return report_error("workload", "the kernel has no function such as %s to begin with", roots[0]);
	tracing_write("trace", "");
	return 0;
}

static int begin_tracing(const struct job *job)
{
	static const char *const options[][2] = {
		{ "options/funcgraph-proc", "1" },     { "options/funcgraph-tail", "1" },
		{ "options/funcgraph-overhead", "0" }, { "options/funcgraph-duration", "1" },
		{ "options/overwrite", "0" },
	};
	bool alone = traces_named_alone(job);
	char number[24];

	tracing_write("tracing_on", "0");
	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		tracing_write(options[i][0], options[i][1]); /* older kernels lack some */
	/* Calls by interrupts are traced if they are named, but the kernel only knows the names in set_graph_function. */
	tracing_write("options/funcgraph-irqs", alone ? "1" : "0");
	if (tracing_write("buffer_size_kb", workload_is_bounded() ? BOUNDED_BUFFER_KIB : UNBOUNDED_BUFFER_KIB))
		return report_error("machine", "cannot get memory to trace into: %m");
	if (start_tracer(alone))
		return 1;
	snprintf(number, sizeof(number), "%lu", job->choose_functions ? 2 : alone ? 0 : job->depth);
	tracing_write("max_graph_depth", number);
	return job->choose_functions ? trace_roots() : trace_named(job, alone);
}

int functions_begin(const struct job *job)
{
	if (access(TRACING_FOLDER "set_graph_function", W_OK))
		return report_error("workload", "the kernel has no function graph tracer: %m");
	if (!begin_tracing(job))
		return 0;
	functions_abandon();
	return 1;
}

/* A virtual machine ends now, and keeps tracing: switching the tracer off takes as long as on. */
void functions_abandon(void)
{
	if (getppid() != 1)
		functions_stop();
}

/* Trace calls of the chosen functions only, at any depth below the roots. */
static int trace_chosen(void)
{
	int number, fd = open_names("set_ftrace_filter");
	const char *const *roots = hot_functions_roots(&number);

	for (int i = 0; i < number; i++)
		add_name(fd, roots[i]);
	for (int i = 0; i < hot_functions.nr_chosen; i++)
		add_name(fd, hot_functions.chosen[i]);
	close(fd);
	tracing_write("max_graph_depth", "0");
	return trace_roots();
}

int functions_descend(void)
{
	FILE *trace = fopen(TRACING_FOLDER "trace", "re");
	int fd;

	if (!trace) {
		report_error("machine", "cannot read the trace: %m");
		return -1;
	}
	hot_functions_descend(&hot_functions, trace);
	fclose(trace);
	if (++nr_rounds == MAX_ROUNDS && hot_functions.nr_next)
		report_lost("functions, below which none was chosen: the calls are too deep", hot_functions.nr_next);
	if (!hot_functions.nr_next || nr_rounds == MAX_ROUNDS)
		return trace_chosen() ? -1 : 0;
	fd = open_names("set_graph_function");
	for (int i = 0; i < hot_functions.nr_next; i++)
		add_name(fd, hot_functions.next[i]);
	close(fd);
	tracing_write("trace", "");
	return 1;
}

unsigned long tracing_lost(int cpu)
{
	char path[80], line[128];
	unsigned long lost = 0, number;
	FILE *stats;

	snprintf(path, sizeof(path), TRACING_FOLDER "per_cpu/cpu%d/stats", cpu);
	stats = fopen(path, "re");
	while (stats && fgets(line, sizeof(line), stats))
		if (sscanf(line, "overrun: %lu", &number) == 1 || sscanf(line, "dropped events: %lu", &number) == 1)
			lost += number;
	if (stats)
		fclose(stats);
	return lost;
}

/* `absent`: 1 for a function that the kernel lacks. */
static void report_functions(const char *const *names, const int *absent, unsigned long number, unsigned long lost,
			     unsigned long cost_of_a_call_ns)
{
	WITH_REPORT("functions", out) {
		fprintf(out, "{\"lost_events\":%lu,\"cost_of_a_call_ns\":%lu,\"roots\":[", lost, cost_of_a_call_ns);
		json_names(out, names, absent, number, 0);
		fprintf(out, "],\"absent\":[");
		json_names(out, names, absent, number, 1);
		fprintf(out, "]}");
	}
}

int functions_end(const struct job *job)
{
	const char *const *names = (const char *const *)job->functions;
	int number = job->nr_functions, failed;
	unsigned long lost = 0;

	for (int cpu = 0; cpu < get_nprocs_conf(); cpu++)
		lost += tracing_lost(cpu);
	if (job->choose_functions)
		names = hot_functions_roots(&number);
	report_lost("calls or functions, for which there was no room while functions were chosen", hot_functions.lost);
	report_functions(names, absent, number, lost, cost_of_a_call_ns);
	failed = report_file(TRACING_FOLDER "trace");
	if (job->blocked || job->efficiency)
		functions_stop();
	else
		functions_abandon();
	return failed;
}
