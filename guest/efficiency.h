/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each CPU spends its time on: by a BPF program where the agent was linked with libbpf and the kernel can run it,
 * and as the kernel itself accounts for it.
 */
#ifndef EFFICIENCY_H
#define EFFICIENCY_H

#include <stdint.h>

struct job;

/* Count while the tasks run, for as long as the job says. Returns 0, or 1 after reporting the error. */
int efficiency(const struct job *job);
/* Once the tasks have stopped: the kernel waits for a grace period with each event that is no longer followed. */
void efficiency_end(void);

/* What one CPU spent on one thing. */
struct share {
	unsigned int cpu;
	const char *kind;
	const char *name; /* "" where the kind says it all */
	uint64_t ns, times;
};

void report_share(const struct share *share);

/* What holds for all of it. */
struct efficiency_summary {
	const char *why_not_bpf; /* "" where BPF was */
	uint64_t nanoseconds;
	uint64_t lost;		    /* how often there was no room for something */
	const uint64_t *operations; /* of each task */
	unsigned long tasks;
};

void report_efficiency_summary(const struct efficiency_summary *summary);

/* Where linked with libbpf. Both return 0, or 1 after reporting the error; begin() -1 where this kernel cannot. */
int shares_begin(const struct job *job, char why_not[256]) __attribute__((weak));
/* What counts is the time between the two, by clock_ns(); `until` is 0 as long as it goes on. */
void shares_count(uint64_t since, uint64_t until) __attribute__((weak));
/* Adds what found no room to `lost`. */
int shares_end(uint64_t *lost) __attribute__((weak));
void shares_detach(void) __attribute__((weak));

#endif
