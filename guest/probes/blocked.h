/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Blocked time: how long tasks were off the CPU, in which state, and in which call path they left it. Measured by a BPF
 * program if the agent is linked with libbpf and the kernel can run it, else by the scheduler's events in tracefs.
 */
#ifndef BLOCKED_H
#define BLOCKED_H

#include <stdint.h>

#include "../../bpf/blocked_maps.h"

struct job;

/* Before tasks start: they inherit the shared memory. Returns 0, or 1 after reporting the error. */
int blocked_prepare(const struct job *job);
/* Returns 0, or 1 after reporting the error. */
int blocked_begin(void);
/* Start or stop counting: by the agent, or by a task around its operation. */
void blocked_count(int on);
/* Report what was counted, and how many operations each task did meanwhile. Returns 0, or 1 after reporting the error. */
int blocked_end(const uint64_t *operations, unsigned long tasks);

/* The times of a task in one state and one call path. */
struct blocked_row {
	uint32_t pid, tgid;
	const char *task; /* its name */
	char state;	  /* as ps shows it; R: it could have run */
	const char *path; /* functions, outermost first, ";" between them */
	const char *user_path;
	uint64_t count, total_ns, max_ns;
	const uint32_t *histogram; /* BUCKETS of them */
};

void blocked_report(const struct blocked_row *row);

/*
 * A way to measure blocked time. All functions but count() return 0, or 1 after reporting the error. If the kernel does
 * not support the way, prepare() returns -1 and writes the reason to `why_not`.
 */
struct blocked_way {
	const char *name;
	int (*prepare)(const struct job *job, struct blocked_count **counting, char why_not[256]);
	int (*begin)(void);
	void (*count)(int on);
	int (*end)(void); /* calls blocked_report() for each row */
};

extern const struct blocked_way blocked_by_events;
extern const struct blocked_way blocked_by_bpf __attribute__((weak)); /* if linked with libbpf */

/* The histogram's bucket of a time; the letter of a state of struct task_struct. */
unsigned int blocked_bucket(uint64_t ns);
char blocked_letter(unsigned int state);

#endif
