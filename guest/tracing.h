/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's own tracers, through tracefs. */
#ifndef TRACING_H
#define TRACING_H

#define TRACING_FOLDER "/sys/kernel/tracing/"

/* Write to a file of tracefs, in place of what it holds or behind it. Return 0, or -1 with errno. */
int tracing_write(const char *file, const char *text);
int tracing_append(const char *file, const char *text);
/* How many events of a CPU found no room. */
unsigned long tracing_lost(int cpu);

struct job;
/*
 * Trace the job's functions, and what they call, down to its depth; not yet switched on where operations come in rounds.
 * Returns 0, or 1 after reporting the error.
 */
int functions_begin(const struct job *job);
/* From what was traced, choose what to trace next. Returns 0 when all is chosen, 1 before, -1 after reporting an error. */
int functions_descend(void);
/* Report the trace, the functions that the kernel lacks, what was lost, and what tracing costs. */
int functions_end(const struct job *job);
/* After an error in between: a real machine traces no more. */
void functions_abandon(void);

#endif
