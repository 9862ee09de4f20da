/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the program in the kernel and the agent that loads it tell each other. */
#ifndef EFFICIENCY_MAPS_H
#define EFFICIENCY_MAPS_H

#define SHARE_NAME_BYTES 16

/* What a CPU can be doing; an interrupt in a softirq in a task counts as the interrupt. */
enum share_kind { SHARE_TASK, SHARE_SOFTIRQ, SHARE_INTERRUPT };
enum share_interrupt { NO_INTERRUPT, TIMER_INTERRUPT, OTHER_INTERRUPT };

struct share_key {
	unsigned int cpu;
	unsigned int kind;
	unsigned int id; /* a pid, a softirq's number, an enum share_interrupt */
};

struct share_value {
	unsigned long long ns;
	unsigned long long times; /* it ended, or was switched out */
	char name[SHARE_NAME_BYTES]; /* of a task */
};

/* A page shared by the program and the agent. */
struct share_count {
	unsigned long long since; /* when counting was switched on (CLOCK_MONOTONIC); 0: it is off */
	unsigned long long until; /* when it was switched off: later time does not count; 0: it is on */
	unsigned long long lost;  /* stretches of time for which the map had no room */
};

#endif
