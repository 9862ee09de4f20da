/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reports to the controller: framed, checksummed messages (docs/protocol.md), each
 *
 *	@bigiron TYPE LENGTH CRC32\n
 *	PAYLOAD\n
 *
 * with a JSON payload of LENGTH bytes, 16 MiB at most, whose CRC-32 (IEEE) is given in eight hex digits.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdint.h>
#include <stdio.h>

struct job;

#define AGENT_PROTOCOL 1

void report_open(const char *path); /* NULL: standard output */
void report_hello(void);
/* Which controllers the cgroup of the tasks has, and which of them the kernel lacks (`absent`: 1). */
void report_cgroup(const char *const *controllers, const int *absent, unsigned long number);
/* Where in the machine's memory there is room for what a cell is: the frame of each of its pages (guest/boot/). */
void report_room(const uint64_t *frames, unsigned long pages);
/* How long the recording took, by the machine's clock. */
void report_recorded(uint64_t nanoseconds);
void report_stage(const char *stage);
/* One sample of throughput: what each task had done by the time of the clock, in nanoseconds. */
void report_sample(uint64_t nanoseconds, const uint64_t *operations, unsigned long tasks);
/*
 * What one operation took, and into which state it put its CPU: its number, its CPU, nanoseconds, of them in the kernel, context switches, voluntary and not,
 * grace periods waited for, normal and expedited. What is negative is not known.
 */
void report_operation(const char *state, const long *values);
/* Of a trace: below which functions it is, which of them the kernel lacks (`absent`: 1), how many events were lost, what a traced call takes longer. */
void report_functions(const char *const *names, const int *absent, unsigned long number, unsigned long lost,
		      unsigned long cost_of_a_call_ns);
/* How long a command took, and how it ended, as wait() says. */
void report_command(uint64_t nanoseconds, int status);
/* The text of a file. Returns 0, or 1 after reporting the error. */
int report_file(const char *path);
/* The same for a text that was read from it earlier. */
void report_lines(const char *path, FILE *text);
/* The text of the files, such as a trace, that the job wants read. Returns 0, or 1 after reporting the error. */
int report_files(const struct job *job);
/* A test of which a call returned something else than it should: the call, and both as text. */
void report_test_failed(unsigned long test, const char *call, const char *expected, const char *result);
/* What had to be left out, as the plural of a noun without quotes, and how many of it; 0: nothing was. */
void report_lost(const char *what, unsigned long count);
void report_end(int failed);

/* KIND is "job", "setting", "workload" or "machine". Returns 1, for the caller to return. */
int report_error(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The workload's standard error goes to a memory file, to be quoted when it fails. */
void capture_workload_stderr(void);
const char *workload_stderr(void);

#endif
