/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What each CPU spends its time on: measured by a BPF program if the agent is linked with libbpf and the kernel can run
 * it, and as the kernel itself accounts for it.
 */
#ifndef EFFICIENCY_H
#define EFFICIENCY_H

#include <stdint.h>

struct job;

/* Measure while the tasks run, for as long as the job says. Returns 0, or 1 after reporting the error. */
int cpu_time_measure(const struct job *job);
/* Once the tasks have stopped: the kernel waits for a grace period for each event that is no longer traced. */
void cpu_time_end(void);

/* The time that one CPU spent on one thing. */
struct cpu_time_row {
	unsigned int cpu;
	const char *kind; /* NULL: a task, by its `pid` */
	unsigned int pid;
	const char *name; /* "" if there is only one of the kind */
	uint64_t ns, times;
};

void cpu_time_report(const struct cpu_time_row *row);

/*
 * A way to measure it. begin() and end() return 0, or 1 after reporting the error. If the kernel does not support the way,
 * begin() returns -1 and writes the reason to `why_not`.
 */
struct cpu_time_way {
	int (*begin)(const struct job *job, char why_not[256]);
	void (*count)(uint64_t since, uint64_t until); /* between these times of clock_ns(); `until` 0: no end yet */
	int (*end)(uint64_t *lost); /* calls cpu_time_report() for each row; adds what found no room to `lost` */
	void (*detach)(void);
};

extern const struct cpu_time_way cpu_time_by_bpf __attribute__((weak)); /* if linked with libbpf */

#endif
