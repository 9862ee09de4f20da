/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the program in the kernel and the agent that loads it tell each other. */
#ifndef BLOCKED_MAPS_H
#define BLOCKED_MAPS_H

#include "stacks_maps.h"

#define BUCKETS 32
#define FIRST_BUCKET_BITS 11 /* bucket 0: less than 2^11 ns; bucket i: from 2^(10+i) to less than 2^(11+i) */

/* Bits of a state, as the tracepoint sched_switch has them. */
#define STATE_REPORTED 0x7fu
#define STATE_UNINTERRUPTIBLE 0x2u
#define STATE_DEAD 0x30u
#define STATE_IDLE 0x80u      /* of a kernel thread that has nothing to do */
#define STATE_PREEMPTED 0x100u /* it could have run, but another task did */

/* Set by the agent before the program is loaded; 0: no filter. */
struct blocked_filter {
	unsigned int pid;
	unsigned int tgid;
	unsigned int states;
	unsigned int user_stacks;
	unsigned long long min_ns;
	unsigned int left_out[2]; /* pids: the agent's own */
};

/* A page shared by the program, the agent and its tasks. */
struct blocked_count {
	unsigned long long since;    /* when counting was switched on (CLOCK_MONOTONIC); 0: it is off */
	unsigned long long total_ns; /* how long it was on, before that */
	unsigned long long lost;     /* times for which no map had room */
	unsigned long long lost_user_stacks;
};

struct blocked_key {
	unsigned int pid;
	int kernel_stack; /* negative: none was found */
	int user_stack;
	unsigned int state;
};

struct blocked_value {
	unsigned long long count;
	unsigned long long total_ns;
	unsigned long long max_ns;
	unsigned int histogram[BUCKETS];
	unsigned int tgid;
	char task[TASK_NAME_BYTES];
};

#endif
