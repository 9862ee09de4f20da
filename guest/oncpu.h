/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What CPUs execute: a sampling profile, taken by perf events and a BPF program. */
#ifndef ONCPU_H
#define ONCPU_H

#include <stdint.h>

struct job;

/*
 * Sample while the tasks run, for as long as the job says. Returns 0, or 1 after reporting the error. Where the agent
 * was linked with libbpf.
 */
int oncpu(const struct job *job) __attribute__((weak));

/* How often one task was found in one stack on one CPU. */
struct oncpu_row {
	uint32_t cpu, pid, tgid;
	const char *kind; /* of the task: kind_of_task() */
	const char *task; /* its name */
	const char *path; /* functions in the kernel, outermost first, ";" between them; "" in user space */
	const char *user_path;
	uint64_t samples;
};

void report_oncpu(const struct oncpu_row *row);

/* What holds for all of it. */
struct oncpu_summary {
	const char *event;    /* of which CPUs have counted `period` between two samples */
	uint64_t period;
	uint64_t nanoseconds; /* for which was sampled */
	uint64_t lost;	      /* samples for which no map had room */
	const uint64_t *operations; /* of each task */
	unsigned long tasks;
};

void report_oncpu_summary(const struct oncpu_summary *summary);

#endif
