/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What CPUs execute: a sampling profile, taken by perf events and a BPF program. */
#ifndef ONCPU_H
#define ONCPU_H

#include <stdint.h>

struct job;

/* Sample while the tasks run, for as long as the job says. Returns 0, or 1 after reporting the error. */
int oncpu_measure(const struct job *job);

/* How often one task was found in one stack on one CPU. */
struct oncpu_row {
	uint32_t cpu, pid, tgid;
	const char *task; /* its name */
	const char *path; /* functions in the kernel, outermost first, ";" between them; "" in user space */
	const char *user_path;
	uint64_t samples;
};

void oncpu_report(const struct oncpu_row *row);

/* The event that takes samples: one each time that a CPU has counted `period` of it. */
struct oncpu_event {
	const char *name;
	uint64_t period;
};

/* A way to sample. begin() and end() return 0, or 1 after reporting the error. */
struct oncpu_way {
	int (*begin)(const struct job *job, struct oncpu_event *event);
	void (*count)(int on);
	int (*end)(uint64_t *lost); /* calls oncpu_report() for each row; adds samples that found no room to `lost` */
};

extern const struct oncpu_way oncpu_by_bpf __attribute__((weak)); /* if linked with libbpf */

#endif
