/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the program in the kernel and the agent that loads it tell each other. */
#ifndef ONCPU_MAPS_H
#define ONCPU_MAPS_H

#include "stacks_maps.h"

/* A page shared by the program and the agent. */
struct sampling {
	unsigned int on;
	unsigned int unused;
	unsigned long long lost; /* samples for which no map had room */
	unsigned long long lost_user_stacks;
};

struct sample_key {
	unsigned int cpu;
	unsigned int pid; /* 0: the CPU idled */
	int kernel_stack; /* negative: it was in user space */
	int user_stack;
};

struct sample_value {
	unsigned long long count;
	unsigned int tgid;
	char task[TASK_NAME_BYTES];
};

#endif
