/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reports to the controller: framed, checksummed messages (docs/contributing/protocol.md), each
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

/* A message whose payload grows until it is sent. */
struct report {
	FILE *out; /* write the payload here */
	char *text;
	size_t size;
	int begun;
};

/* Returns 0 the second time, and if there is no memory. */
int report_begin(struct report *report);
void report_send(struct report *report, const char *type);

/* Executes what follows once, which writes the payload to `stream`, and sends it. */
#define WITH_REPORT(type, stream)                                                              \
	for (struct report _report = { 0 }; report_begin(&_report); report_send(&_report, type)) \
		for (FILE *stream = _report.out; stream; stream = NULL)

/* Parts of payloads: a string; the operations of each task; a list of the names whose `absent` is `wanted`. */
void json_string(FILE *out, const char *text);
void json_operations(FILE *out, const uint64_t *operations, unsigned long tasks);
void json_names(FILE *out, const char *const *names, const int *absent, unsigned long number, int wanted);

void report_open(const char *path); /* NULL: standard output */
/* Another agent measures, of which that is the process; 0: not known. */
void report_waiting(int pid);
/* That process has outlived the agent, and all was put back without waiting for it any longer; 0: not known. */
void report_remains(int pid);
void report_hello(void);
/* The controllers of the tasks' cgroup: which the kernel has, and which it lacks (`absent`: 1). */
void report_cgroup(const char *const *controllers, const int *absent, unsigned long number);
/* Where in the machine's memory a cell's files can be put: the frames of these pages (guest/boot/). */
void report_room(const uint64_t *frames, unsigned long pages);
/* How long the recording took, by the machine's clock. */
void report_recorded(uint64_t nanoseconds);
void report_stage(const char *stage);
/* One sample of throughput: the time of the clock, and how many operations each task had done by then. */
void report_sample(uint64_t nanoseconds, const uint64_t *operations, unsigned long tasks);
/* How long a command took, and its status, as of wait(). */
void report_command(uint64_t nanoseconds, int status);
/* The text of a file. Returns 0, or 1 after reporting the error. */
int report_file(const char *path);
/* The same for text that was read from the file earlier. */
void report_lines(const char *path, FILE *text);
/* The text of the files, such as a trace, that the job wants read. Returns 0, or 1 after reporting the error. */
int report_files(const struct job *job);
/* A call of a test returned an unexpected result: the call and both results, as text. */
void report_test_failed(unsigned long test, const char *call, const char *expected, const char *result);
/* How many things were left out; nothing is reported if 0. `what` is a plural noun, without quotes in it. */
void report_lost(const char *what, unsigned long count);
void report_end(int failed);

/* KIND is "job", "setting", "workload" or "machine". Returns 1, for the caller to return. */
int report_error(const char *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same with the last lines of what a program printed, open as `output`. */
int report_program_error(int output, const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The workload's standard error goes to a memory file, to be quoted when it fails. */
void capture_workload_stderr(void);
const char *workload_stderr(void);

#endif
