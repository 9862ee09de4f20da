// SPDX-License-Identifier: GPL-2.0-or-later
#include "recording/tests.h"

#include <stdio.h>

#include "arch/guest.h"
#include "cpu/cpu.h"
#include "execution/operations.h"
#include "execution/stacks.h"
#include "memory/accesses.h"
#include "protocol/folder.h"
#include "protocol/request.h"

static struct {
	uint64_t number;
	bool runs;
	FILE *lines; /* of the tests that have ended */
	FILE *log;   /* of the tests that have begun: one that does not end leaves half a line */
} tests;

static void close_file(FILE **file)
{
	if (*file)
		fclose(*file);
	*file = NULL;
}

void tests_arm(void)
{
	tests.runs = false;
	close_file(&tests.lines);
	close_file(&tests.log);
	if (!(request.what & RECORD_TESTS))
		return;
	tests.lines = folder_open("test_lines.csv", "w");
	tests.log = folder_open("tests.csv", "w");
	if (tests.lines)
		fprintf(tests.lines, "test,cpu,context,line,pc,chain,reads,writes,bytes\n");
	if (tests.log)
		fprintf(tests.log, "test,accesses\n");
}

void tests_disarm(void)
{
	close_file(&tests.lines);
	close_file(&tests.log);
}

static void begin(uint64_t number)
{
	accesses_flush();
	for_each_cpu(cpu)
		lines_clear(&cpu->lines);
	if (tests.runs && tests.number == number)
		return;
	/* A test that failed before it was recorded has no end. */
	fprintf(tests.log, tests.runs ? "\n%lu" : "%lu", number);
	fflush(tests.log);
	tests.number = number;
	tests.runs = true;
}

static uint64_t accesses(void)
{
	uint64_t sum = 0;

	for_each_cpu(cpu)
		sum += cpu->lines.accesses[CONTEXT_OPERATION];
	return sum;
}

static void end(void)
{
	operations_stop();
	accesses_flush();
	tests.runs = false;
	/* After an error, nothing more is written: half a line in the log says that its test was not recorded. */
	if (lines_write_test(tests.lines, tests.number, cpus.line_tables, cpus.nr, guest.arch->line_bytes,
			     stacks_contain) ||
	    fflush(tests.lines))
		tests_disarm();
	else
		fprintf(tests.log, ",%lu\n", accesses());
}

void tests_on_mark(enum recorder_mark mark, uint64_t number)
{
	if (!tests.lines || !tests.log)
		return;
	if (mark == MARK_TEST)
		begin(number);
	else if (mark == MARK_CALL && tests.runs)
		this_cpu()->recording = 1;
	else if (mark == MARK_CALL_END)
		this_cpu()->recording = 0;
	else if (mark == MARK_TEST_END && tests.runs)
		end();
}
