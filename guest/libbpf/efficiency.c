// SPDX-License-Identifier: GPL-2.0-or-later
/* What CPUs spend their time on, counted in the kernel by bpf/efficiency.bpf.c. */
#include "probes/efficiency.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "../../bpf/efficiency_maps.h"
#include "load.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "tracing/tracing.h"

#define MAX_LINKS 64

static struct bpf_run run;
static volatile struct share_count *counting;

static int attach(const char *program, const char *category, const char *event)
{
	char path[256];

	snprintf(path, sizeof(path), TRACING_FOLDER "events/%s/%s", category, event);
	if (access(path, F_OK))
		return 0;
	if (run.nr_links == MAX_LINKS) {
		report_lost("tracepoints of interrupts, for which there was no room", 1);
		return 0;
	}
	return bpf_run_attach(&run, bpf_program__attach_tracepoint(
					    bpf_object__find_program_by_name(run.object, program), category, event));
}

static int ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), wanted = strlen(end);

	return length > wanted && !strcmp(text + length - wanted, end);
}

/* Every kind of interrupt for which x86 has events. */
static int attach_vectors(void)
{
	DIR *folder = opendir(TRACING_FOLDER "events/irq_vectors");
	int failed = 0;

	for (struct dirent *event; folder && !failed && (event = readdir(folder));) {
		if (!strncmp(event->d_name, "local_timer", strlen("local_timer")))
			continue;
		if (ends_with(event->d_name, "_entry"))
			failed = attach("interrupt_begins", "irq_vectors", event->d_name);
		else if (ends_with(event->d_name, "_exit"))
			failed = attach("interrupt_ends", "irq_vectors", event->d_name);
	}
	if (folder)
		closedir(folder);
	return failed;
}

static int attach_all(void)
{
	static const char *const events[][3] = {
		{ "task_ends", "sched", "sched_switch" },
		{ "softirq_begins", "irq", "softirq_entry" },
		{ "softirq_ends", "irq", "softirq_exit" },
		{ "interrupt_begins", "irq", "irq_handler_entry" },
		{ "interrupt_ends", "irq", "irq_handler_exit" },
		{ "timer_begins", "irq_vectors", "local_timer_entry" },
		{ "interrupt_ends", "irq_vectors", "local_timer_exit" },
		{ "timer_begins", "powerpc", "timer_interrupt_entry" },
		{ "interrupt_ends", "powerpc", "timer_interrupt_exit" },
		{ "interrupt_begins", "powerpc", "doorbell_entry" },
		{ "interrupt_ends", "powerpc", "doorbell_exit" },
	};

	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++)
		if (attach(events[i][0], events[i][1], events[i][2]))
			return -1;
	return attach_vectors();
}

static int begin(const struct job *job, char why_not[256])
{
	bpf_capture_errors();
	run.object = bpf_object__open_file(job->efficiency, NULL);
	/* Each CPU has threads and softirqs of its own: make room for them in the program's map. */
	if (!run.object || bpf_map__set_max_entries(bpf_run_map(&run, "shares"), 4096 + 64 * get_nprocs_conf()))
		return report_error("machine", "cannot use %s: %s", job->efficiency, bpf_error());
	if (bpf_object__load(run.object)) {
		snprintf(why_not, 256, "%s", bpf_error());
		return -1;
	}
	counting = bpf_run_share(&run, sizeof(*counting));
	if (!counting || attach_all())
		return report_error("machine", "cannot attach the BPF program: %s", bpf_error());
	if (!run.nr_links) {
		snprintf(why_not, 256, "the kernel has no tracepoints in %sevents", TRACING_FOLDER);
		return -1;
	}
	return 0;
}

static void count(uint64_t since, uint64_t until)
{
	counting->until = until;
	counting->since = since;
}

static void report(const struct share_key *key, const struct share_value *value)
{
	/* include/linux/interrupt.h, the same since 2.6.39 */
	static const char *const softirqs[] = { "HI",  "TIMER",	  "NET_TX", "NET_RX",  "BLOCK",
						"IRQ_POLL", "TASKLET", "SCHED",  "HRTIMER", "RCU" };
	struct cpu_time_row row = { .cpu = key->cpu, .name = "", .ns = value->ns, .times = value->times };

	if (key->kind == SHARE_TASK) {
		row.pid = key->id;
		row.name = key->id ? value->name : "";
	} else if (key->kind == SHARE_SOFTIRQ) {
		row.kind = "softirq";
		row.name = key->id < sizeof(softirqs) / sizeof(*softirqs) ? softirqs[key->id] : "other";
	} else {
		row.kind = "interrupt";
		row.name = key->id == TIMER_INTERRUPT ? "timer" : "other";
	}
	cpu_time_report(&row);
}

static int end(uint64_t *lost)
{
	struct share_key key, *previous = NULL;
	struct share_value value;
	int shares = bpf_run_map_fd(&run, "shares");

	counting->since = 0;
	*lost += counting->lost;
	while (!bpf_map_get_next_key(shares, previous, &key)) {
		if (!bpf_map_lookup_elem(shares, &key, &value))
			report(&key, &value);
		previous = &key;
	}
	return 0;
}

static void detach(void)
{
	bpf_run_detach(&run);
}

const struct cpu_time_way cpu_time_by_bpf = { begin, count, end, detach };
