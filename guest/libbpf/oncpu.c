// SPDX-License-Identifier: GPL-2.0-or-later
/* A sampling profile, counted in the kernel by bpf/oncpu.bpf.c. */
#include "probes/oncpu.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "../../bpf/oncpu_maps.h"
#include "load.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "stacks.h"
#include "symbolize.h"
#include "tasks/task_kind.h"

/* An assumption: only the rate of samples depends on it. */
#define CYCLES_PER_US 3000

/* Samples fall anywhere: they have many more different stacks than tasks that leave their CPU. */
#define KERNEL_STACKS 16
#define USER_STACKS 4

static struct bpf_run run;
static volatile struct sampling *sampling;

/* Cycles if the CPU counts them, which virtual machines seldom do; else its clock. */
static struct event {
	const char *name;
	uint32_t type;
	uint64_t config;
	uint64_t per_us;
} const events[] = {
	{ "cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, CYCLES_PER_US },
	{ "cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, 1000 },
};

static int open_event(const struct event *event, uint64_t period, int cpu)
{
	struct perf_event_attr attr = {
		.type = event->type,
		.size = sizeof(attr),
		.config = event->config,
		.sample_period = period,
		.disabled = 1,
	};

	return syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static const struct event *choose_event(void)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		int fd = open_event(&events[i], 1000 * events[i].per_us, 0);

		if (fd < 0)
			continue;
		close(fd);
		return &events[i];
	}
	return NULL;
}

static int load(const struct job *job)
{
	struct bpf_map *samples;

	if (!kernel_numbers_tasks_alike())
		return report_error("machine", "cannot sample: " OTHER_NUMBERS);
	bpf_capture_errors();
	run.object = bpf_object__open_file(job->oncpu, NULL);
	if (!run.object)
		return report_error("machine", "cannot use %s: %s", job->oncpu, bpf_error());
	samples = bpf_run_map(&run, "samples");
	if (bpf_map__set_max_entries(samples, bpf_map__max_entries(samples) + 512 * get_nprocs_conf()) ||
	    stacks_make_room(run.object, KERNEL_STACKS, USER_STACKS) || bpf_object__load(run.object))
		return report_error("machine", "the kernel does not take the BPF program that counts samples: %s",
				    bpf_error());
	sampling = bpf_run_share(&run, sizeof(*sampling));
	if (!sampling)
		return report_error("machine", "cannot share memory with the BPF program: %m");
	return 0;
}

static int attach(const struct event *event, uint64_t period)
{
	struct bpf_program *program = bpf_object__find_program_by_name(run.object, "sample");

	for (int cpu = 0; cpu < get_nprocs_conf(); cpu++) {
		int fd = open_event(event, period, cpu);

		if (fd < 0 && errno == ENODEV)
			continue; /* it is offline */
		if (fd < 0)
			return report_error("machine", "cannot sample CPU %d by %s: %m", cpu, event->name);
		if (bpf_run_attach(&run, bpf_program__attach_perf_event(program, fd)))
			return report_error("machine", "cannot attach the BPF program to %s: %s", event->name,
					    bpf_error());
	}
	return 0;
}

static void for_each_sample(void (*each)(const struct sample_key *key, const struct sample_value *value))
{
	int samples = bpf_run_map_fd(&run, "samples");
	struct sample_key key, *previous = NULL;
	struct sample_value value;

	while (!bpf_map_get_next_key(samples, previous, &key)) {
		if (!bpf_map_lookup_elem(samples, &key, &value))
			each(&key, &value);
		previous = &key;
	}
}

/* The innermost address is that of the CPU. The others are return addresses. */
static int kernel_frames(const struct sample_key *key, uint64_t frames[MOST_FRAMES])
{
	int depth = stacks_kernel(run.object, key->kernel_stack, frames);

	if (depth)
		frames[0]++;
	return depth;
}

static void add_addresses(const struct sample_key *key, const struct sample_value *value)
{
	uint64_t frames[MOST_FRAMES];

	(void)value;
	symbolize_add_kernel(frames, kernel_frames(key, frames));
}

static void report(const struct sample_key *key, const struct sample_value *value)
{
	uint64_t frames[MOST_FRAMES];
	char *path = symbolize_kernel_path(frames, kernel_frames(key, frames));
	char *user_path = symbolize_user_path(value->tgid, frames, stacks_user(run.object, key->user_stack, frames));

	oncpu_report(&(struct oncpu_row){
		.cpu = key->cpu,
		.pid = key->pid,
		.tgid = value->tgid,
		.task = value->task,
		.path = path,
		.user_path = user_path,
		.samples = value->count,
	});
	free(path);
	free(user_path);
}

static int begin(const struct job *job, struct oncpu_event *chosen)
{
	const struct event *event = choose_event();

	if (!event)
		return report_error("machine", "cannot sample: the kernel permits no perf event here: %m");
	chosen->name = event->name;
	chosen->period = job->oncpu_period_us * event->per_us;
	return load(job) || attach(event, chosen->period);
}

static void count(int on)
{
	sampling->on = on;
}

static int end(uint64_t *lost)
{
	bpf_run_detach(&run);
	*lost += sampling->lost;
	for_each_sample(add_addresses);
	if (symbolize_resolve_kernel())
		return report_error("machine", "cannot read the kernel's symbols: %m");
	for_each_sample(report);
	report_lost(LOST_USER_STACKS, sampling->lost_user_stacks);
	return 0;
}

const struct oncpu_way oncpu_by_bpf = { begin, count, end };
