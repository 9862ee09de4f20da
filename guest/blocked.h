/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long tasks were off the CPU, from where they left it and in which state: by a BPF program where the agent was
 * linked with libbpf and the kernel can run it, else by the scheduler's events in tracefs.
 */
#ifndef BLOCKED_H
#define BLOCKED_H

#include <stdint.h>

#include "../bpf/blocked_maps.h"

struct job;

/* Before tasks start, as they inherit what it makes. Returns 0, or 1 after reporting the error. */
int blocked_prepare(const struct job *job);
/* Returns 0, or 1 after reporting the error. */
int blocked_begin(void);
/* By the agent, or by a task around its operation: only what lies between counts. */
void blocked_count(int on);
/* Report what was counted while each task did so many operations. Returns 0, or 1 after reporting the error. */
int blocked_end(const uint64_t *operations, unsigned long tasks);

/* A task's times in one state at one place. */
struct blocked_row {
	uint32_t pid, tgid;
	const char *task; /* its name */
	char state;	  /* as ps shows it; R: it could have run */
	const char *path; /* functions, outermost first, ";" between them */
	const char *user_path;
	uint64_t count, total_ns, max_ns;
	const uint32_t *histogram; /* BUCKETS of them */
};

void report_blocked(const struct blocked_row *row);

/* What holds for all of it. */
struct blocked_summary {
	const char *way;	 /* in which it was counted */
	const char *why_not_bpf; /* "" where BPF was */
	uint64_t nanoseconds;	 /* for which counting was on */
	uint64_t lost;		 /* how often there was no room for something */
	const uint64_t *operations; /* of each task */
	unsigned long tasks;
};

void report_blocked_summary(const struct blocked_summary *summary);

/*
 * A way to count. All functions but count() return 0, or 1 after reporting the error; prepare() returns -1, and
 * says why in `why_not`, where this kernel cannot do it.
 */
struct blocked_way {
	const char *name;
	int (*prepare)(const struct job *job, struct blocked_count **counting, char why_not[256]);
	int (*begin)(void);
	void (*count)(int on);
	int (*end)(void); /* by report_blocked() */
};

extern const struct blocked_way by_events;
extern const struct blocked_way by_bpf __attribute__((weak)); /* where linked with libbpf */

/* The bucket of a time, and the letter of a state of struct task_struct. */
unsigned int blocked_bucket(uint64_t ns);
char blocked_letter(unsigned int state);

#endif
