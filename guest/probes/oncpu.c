// SPDX-License-Identifier: GPL-2.0-or-later
#include "oncpu.h"

#include <time.h>

#include "machine/clock.h"
#include "protocol/job.h"
#include "protocol/report.h"
#include "tasks/task_kind.h"
#include "tasks/tasks.h"

void oncpu_report(const struct oncpu_row *row)
{
	WITH_REPORT("oncpu", out) {
		fprintf(out, "{\"cpu\":%u,\"pid\":%u,\"tgid\":%u,\"kind\":\"%s\",\"task\":", row->cpu, row->pid, row->tgid,
			task_kind(row->pid));
		json_string(out, row->task);
		fprintf(out, ",\"path\":");
		json_string(out, row->path);
		fprintf(out, ",\"user_path\":");
		json_string(out, row->user_path);
		fprintf(out, ",\"samples\":%lu}", row->samples);
	}
}

int oncpu_measure(const struct job *job)
{
	const struct timespec time = { job->oncpu_ms / 1000, job->oncpu_ms % 1000 * 1000000 };
	uint64_t before[job->tasks], after[job->tasks], began, nanoseconds, lost = 0;
	struct oncpu_event event;

	if (!&oncpu_by_bpf)
		return report_error("machine", "the agent was made without libbpf");
	report_stage("oncpu");
	if (oncpu_by_bpf.begin(job, &event))
		return 1;
	read_operations(before, job->tasks);
	began = clock_ns();
	oncpu_by_bpf.count(1);
	nanosleep(&time, NULL);
	oncpu_by_bpf.count(0);
	nanoseconds = clock_ns() - began;
	read_operations(after, job->tasks);
	if (oncpu_by_bpf.end(&lost))
		return 1;
	for (unsigned long i = 0; i < job->tasks; i++)
		after[i] -= before[i];
	WITH_REPORT("oncpu_summary", out) {
		fprintf(out, "{\"event\":\"%s\",\"period\":%lu,\"nanoseconds\":%lu,\"lost\":%lu,", event.name, event.period,
			nanoseconds, lost);
		json_operations(out, after, job->tasks);
		fputc('}', out);
	}
	return report_dead_task(job);
}
