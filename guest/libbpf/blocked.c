// SPDX-License-Identifier: GPL-2.0-or-later
/* Blocked time, counted in the kernel by bpf/blocked.bpf.c. */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "load.h"
#include "probes/blocked.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "stacks.h"
#include "symbolize.h"

static struct bpf_run run;
static struct bpf_program *program;
static struct blocked_count *counting;

static int set_filter(const struct job *job)
{
	const struct blocked_filter filter = {
		.pid = job->blocked_pid,
		.tgid = job->blocked_tgid,
		.states = job->blocked_states,
		.user_stacks = job->blocked_user,
		.min_ns = job->blocked_min_us * 1000,
		.left_out = { getppid(), getpid() },
	};

	return bpf_map__set_initial_value(bpf_run_map(&run, ".rodata"), &filter, sizeof(filter));
}

/* Each CPU has kernel threads of its own: make room for them in the program's maps. */
static int make_room(const struct job *job)
{
	struct bpf_map *departures = bpf_run_map(&run, "departures");
	struct bpf_map *rows = bpf_run_map(&run, "rows");
	int more = 64 * get_nprocs_conf();

	return bpf_map__set_max_entries(departures, bpf_map__max_entries(departures) + more) ||
	       bpf_map__set_max_entries(rows, bpf_map__max_entries(rows) + more) ||
	       stacks_make_room(run.object, 1, job->blocked_user);
}

/* Choose one of the two programs: kernels without types cannot verify the other one. */
static int open_object(const char *path)
{
	int typed = !access("/sys/kernel/btf/vmlinux", R_OK);
	LIBBPF_OPTS(bpf_object_open_opts, options);

	/* libbpf wants types even if no program to load refers to any: give it the object's own. */
	if (!typed)
		options.btf_custom_path = path;
	run.object = bpf_object__open_file(path, &options);
	if (!run.object)
		return -1;
	program = bpf_object__find_program_by_name(run.object, typed ? "typed" : "untyped");
	return bpf_program__set_autoload(bpf_object__find_program_by_name(run.object, typed ? "untyped" : "typed"), 0);
}

static int prepare(const struct job *job, struct blocked_count **shared, char why_not[256])
{
	bpf_capture_errors();
	if (open_object(job->blocked) || set_filter(job) || make_room(job))
		return report_error("machine", "cannot use %s: %m", job->blocked);
	if (bpf_object__load(run.object)) {
		snprintf(why_not, 256, "%s", bpf_error());
		return -1;
	}
	counting = bpf_run_share(&run, sizeof(*counting));
	if (!counting)
		return report_error("machine", "cannot share memory with the BPF program: %m");
	*shared = counting;
	return 0;
}

static int begin(void)
{
	if (bpf_run_attach(&run, bpf_program__attach(program)))
		return report_error("machine", "cannot attach the BPF program: %s", bpf_error());
	return 0;
}

static void count(int on)
{
	(void)on; /* the program reads counting->since */
}

static void for_each_row(void (*each)(const struct blocked_key *key, const struct blocked_value *value))
{
	struct blocked_key key, *previous = NULL;
	struct blocked_value value;

	while (!bpf_map_get_next_key(bpf_run_map_fd(&run, "rows"), previous, &key)) {
		if (!bpf_map_lookup_elem(bpf_run_map_fd(&run, "rows"), &key, &value))
			each(&key, &value);
		previous = &key;
	}
}

static void add_addresses(const struct blocked_key *key, const struct blocked_value *value)
{
	uint64_t frames[MOST_FRAMES];

	(void)value;
	symbolize_add_kernel(frames, stacks_kernel(run.object, key->kernel_stack, frames));
}

static void report(const struct blocked_key *key, const struct blocked_value *value)
{
	uint64_t frames[MOST_FRAMES];
	char *path = symbolize_kernel_path(frames, stacks_kernel(run.object, key->kernel_stack, frames));
	char *user_path = symbolize_user_path(value->tgid, frames, stacks_user(run.object, key->user_stack, frames));

	blocked_report(&(struct blocked_row){
		.pid = key->pid,
		.tgid = value->tgid,
		.task = value->task,
		.state = blocked_letter(key->state),
		.path = path,
		.user_path = user_path,
		.count = value->count,
		.total_ns = value->total_ns,
		.max_ns = value->max_ns,
		.histogram = value->histogram,
	});
	free(path);
	free(user_path);
}

static int end(void)
{
	bpf_run_detach(&run);
	for_each_row(add_addresses);
	if (symbolize_resolve_kernel())
		return report_error("machine", "cannot read the kernel's symbols: %m");
	for_each_row(report);
	report_lost(LOST_USER_STACKS, counting->lost_user_stacks);
	return 0;
}

const struct blocked_way blocked_by_bpf = { "bpf", prepare, begin, count, end };
