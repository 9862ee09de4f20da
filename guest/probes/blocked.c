// SPDX-License-Identifier: GPL-2.0-or-later
#include "blocked.h"

#include <string.h>

#include "machine/clock.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "tasks/task_kind.h"

static const struct blocked_way *way;
static struct blocked_count *counting;
static char why_not_bpf[256] = "the agent was made without it";

int blocked_prepare(const struct job *job)
{
	char why_not[256];
	int failed = -1;

	if (!job->blocked)
		return 0;
	if (!kernel_numbers_tasks_alike())
		return report_error("machine", "blocked time cannot be measured: " OTHER_NUMBERS);
	if (&blocked_by_bpf) {
		way = &blocked_by_bpf;
		failed = way->prepare(job, &counting, why_not_bpf);
	}
	if (failed < 0) {
		way = &blocked_by_events;
		failed = way->prepare(job, &counting, why_not);
	} else {
		why_not_bpf[0] = 0;
	}
	if (failed < 0)
		return report_error("workload", "blocked time cannot be measured: no BPF (%s), no events (%s)",
				    why_not_bpf, why_not);
	return failed;
}

int blocked_begin(void)
{
	return way->begin();
}

void blocked_count(int on)
{
	if (on) {
		way->count(1);
		__atomic_store_n(&counting->since, clock_ns(), __ATOMIC_SEQ_CST);
	} else {
		counting->total_ns += clock_ns() - counting->since;
		__atomic_store_n(&counting->since, 0, __ATOMIC_SEQ_CST);
		way->count(0);
	}
}

void blocked_report(const struct blocked_row *row)
{
	WITH_REPORT("blocked", out) {
		fprintf(out, "{\"pid\":%u,\"tgid\":%u,\"task\":", row->pid, row->tgid);
		json_string(out, row->task);
		fprintf(out, ",\"state\":\"%c\",\"path\":", row->state);
		json_string(out, row->path);
		fprintf(out, ",\"user_path\":");
		json_string(out, row->user_path);
		fprintf(out, ",\"count\":%lu,\"total_ns\":%lu,\"max_ns\":%lu,\"histogram\":[", row->count,
			row->total_ns, row->max_ns);
		for (int i = 0; i < BUCKETS; i++)
			fprintf(out, "%s%u", i ? "," : "", row->histogram[i]);
		fprintf(out, "]}");
	}
}

static void report_summary(const uint64_t *operations, unsigned long tasks)
{
	WITH_REPORT("blocked_summary", out) {
		fprintf(out, "{\"way\":\"%s\",\"why_not_bpf\":", way->name);
		json_string(out, why_not_bpf);
		fprintf(out, ",\"nanoseconds\":%lu,\"lost\":%lu,", (unsigned long)counting->total_ns,
			(unsigned long)counting->lost);
		json_operations(out, operations, tasks);
		fputc('}', out);
	}
}

int blocked_end(const uint64_t *operations, unsigned long tasks)
{
	int failed = way->end();

	if (!failed)
		report_summary(operations, tasks);
	return failed;
}

unsigned int blocked_bucket(uint64_t ns)
{
	unsigned int bucket = 0;

	for (ns >>= FIRST_BUCKET_BITS; ns; ns >>= 1)
		bucket++;
	return bucket < BUCKETS ? bucket : BUCKETS - 1;
}

/* Bits of the state and their letters: the kernel's TASK_REPORT and task_state_to_char(). */
char blocked_letter(unsigned int state)
{
	static const char letters[] = "SDTtXZP";

	if (state & STATE_IDLE)
		return 'I';
	for (int bit = 0; letters[bit]; bit++)
		if (state & 1u << bit)
			return letters[bit];
	return 'R';
}
