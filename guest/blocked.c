// SPDX-License-Identifier: GPL-2.0-or-later
#include "blocked.h"

#include <string.h>

#include "clock.h"
#include "job.h"
#include "report.h"

static const struct blocked_way *way;
static struct blocked_count *counting;
static char why_not_bpf[256] = "the agent was made without it";

int blocked_prepare(const struct job *job)
{
	char why_not[256];
	int failed = -1;

	if (!job->blocked)
		return 0;
	if (&by_bpf) {
		way = &by_bpf;
		failed = way->prepare(job, &counting, why_not_bpf);
	}
	if (failed < 0) {
		way = &by_events;
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

int blocked_end(const uint64_t *operations, unsigned long tasks)
{
	int failed = way->end();

	if (!failed)
		report_blocked_summary(&(struct blocked_summary){
			.way = way->name,
			.why_not_bpf = why_not_bpf,
			.nanoseconds = counting->total_ns,
			.lost = counting->lost,
			.operations = operations,
			.tasks = tasks,
		});
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
