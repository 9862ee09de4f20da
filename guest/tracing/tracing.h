/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's own tracers, through tracefs. */
#ifndef TRACING_H
#define TRACING_H

#ifndef TRACING_FOLDER
#define TRACING_FOLDER "/sys/kernel/tracing/"
#endif
#define SWITCH_EVENT "events/sched/sched_switch/"

/* Replace the contents of a file of tracefs, or append to it. Return 0, or -1 with errno. */
int tracing_write(const char *file, const char *text);
int tracing_append(const char *file, const char *text);
/* How many events of a CPU were lost for lack of room. */
unsigned long tracing_lost(int cpu);

struct job;
/*
 * Trace the job's functions, and what they call, down to the job's depth. If operations come in rounds, tracing is not
 * switched on yet. Returns 0, or 1 after reporting the error.
 */
int functions_begin(const struct job *job);
/* Choose what to trace next by the trace so far. Returns 0 when all is chosen, 1 before, -1 after reporting an error. */
int functions_descend(void);
/* Report the trace, the functions that the kernel lacks, what was lost, and what tracing costs. */
int functions_end(const struct job *job);
/* After an error: a real machine stops tracing. */
void functions_abandon(void);
/* Stop tracing functions, and name none. */
void functions_stop(void);

/*
 * On a real machine: remember what tracing's files hold, if the job changes them, and put it back. Return 0, or 1 after
 * reporting the error.
 */
int tracing_remember(const struct job *job);
int tracing_restore(void);

#endif
