/* SPDX-License-Identifier: GPL-2.0-or-later */
/* On whose behalf the kernel runs: everything is counted separately for each context. */
#ifndef CONTEXT_H
#define CONTEXT_H

enum context {
	CONTEXT_OPERATION, /* a user task's own path into the kernel */
	CONTEXT_INTERRUPT, /* interrupts, and softirqs on a stack of their own */
	CONTEXT_KTHREAD,
	CONTEXT_HARNESS, /* bigiron's own agent: not recorded */
	NR_CONTEXTS = CONTEXT_HARNESS,
};

static inline const char *context_name(enum context context)
{
	static const char *const names[NR_CONTEXTS] = { "process", "interrupt", "kthread" };

	return names[context];
}

#endif
