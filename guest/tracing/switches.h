/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The scheduler's switches in the text of the kernel's trace: which task left which CPU when, in which state, from where. */
#ifndef SWITCHES_H
#define SWITCHES_H

#include <stdint.h>
#include <stdio.h>

#include "../../bpf/stacks_maps.h"

#define COUNTING_BEGINS "counting is switched on" /* as a line of the trace: absences before it are none */

/* A switch from one task to another; or, with cpu -1, the moment at which counting began. */
struct switch_event {
	uint64_t us;
	int cpu;
	uint32_t prev, next;
	char state;
	char task[TASK_NAME_BYTES]; /* the name of prev */
	char *path;		    /* the stack of prev, outermost function first, ";" between; NULL: none is there */
};

struct switches {
	struct switch_event *events;
	size_t number, room;
};

/* One time that one task was off the CPU; its event is the one at which it left. */
struct absence {
	const struct switch_event *event;
	uint64_t us;
};

/* Add what a trace has. Returns 0, or -1 with errno. */
int switches_read(struct switches *switches, FILE *trace);
/* The last switch on a CPU, NULL if it has none. */
struct switch_event *switches_last(const struct switches *switches, int cpu);
/* Forget all that came later. */
void switches_cut(struct switches *switches, uint64_t us);
void switches_free(struct switches *switches);

/*
 * From the event at which a task left to the next at which it comes, unless counting began in between: in the order of
 * compare_absences(). Freed by the caller, before the switches; NULL with errno where there is no memory.
 */
struct absence *switches_absences(const struct switches *switches, size_t *number);
/* By task, state and path: 0 for two of the same. */
int compare_absences(const struct absence *one, const struct absence *other);
const char *absence_path(const struct absence *absence);

#endif
