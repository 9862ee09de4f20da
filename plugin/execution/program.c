// SPDX-License-Identifier: GPL-2.0-or-later
#include "execution/program.h"

#include <string.h>

#include "arch/guest.h"
#include "cpu/cpu.h"
#include "execution/stacks.h"
#include "memory/accesses.h"
#include "protocol/request.h"

#define SHARED_LINES_BYTES (1ull << 30) /* for all CPUs together: seldom is most of it used */
#define NR_SYSTEM_CALLS 1024 /* Linux has less than 500 */

#define WINDOW_INSTRUCTIONS (1 << 20) /* a few hundred operations, as many as a workload's tasks do */

static struct {
	unsigned int parts;
	uint64_t windows;
	uint64_t lost_windows; /* in which it was not known what is shared, for lack of memory */
	uint64_t stack_accesses[NR_CONTEXTS];
	bool runs; /* a part */
	uint64_t system_calls[NR_SYSTEM_CALLS];
	uint64_t other_system_calls;
} program;

static void begin_window(void)
{
	for_each_cpu(cpu)
		cpu->window_left = WINDOW_INSTRUCTIONS;
}

static void end_window(void)
{
	accesses_flush();
	program.windows++;
	if (!lines_keep_shared(cpus.line_tables, cpus.shared_line_tables, cpus.nr, guest.arch->line_bytes, stacks_contain,
			       program.stack_accesses))
		program.lost_windows++;
}

void program_next_window(void)
{
	if (program.runs && request.what & RECORD_CONFLICTS)
		end_window();
	begin_window();
}

void program_arm(void)
{
	memset(&program, 0, sizeof(program));
	for_each_cpu(cpu) {
		cpu->user_instructions = 0;
		lines_init(&cpu->shared_lines, SHARED_LINES_BYTES / cpus.nr);
	}
}

void program_run(bool runs)
{
	if (runs)
		program.parts++;
	program_next_window();
	program.runs = runs;
	for_each_cpu(cpu)
		cpu->recording = runs;
}

bool program_runs(void)
{
	return program.runs;
}

void program_count_system_call(uint64_t number)
{
	if (number < NR_SYSTEM_CALLS)
		program.system_calls[number]++;
	else
		program.other_system_calls++;
}

int program_write_lines(FILE *out, uint64_t stack_accesses[NR_CONTEXTS])
{
	memcpy(stack_accesses, program.stack_accesses, sizeof(program.stack_accesses));
	return lines_write_shared(out, NULL, cpus.shared_line_tables, cpus.nr, guest.arch->line_bytes, stacks_contain,
				  stack_accesses);
}

static void write_instructions(FILE *out)
{
	uint64_t user = 0;

	for_each_cpu(cpu)
		user += cpu->user_instructions;
	fprintf(out, "\"instructions\":{\"user\":%lu", user);
	for (int context = 0; context < NR_CONTEXTS; context++) {
		uint64_t instructions = 0;

		for_each_cpu(cpu)
			instructions += cpu->instructions.instructions[context];
		fprintf(out, ",\"%s\":%lu", context_name(context), instructions);
	}
	fprintf(out, "}");
}

static void write_system_calls(FILE *out)
{
	const char *separator = "";

	fprintf(out, "\"system_calls\":{");
	for (unsigned int number = 0; number < NR_SYSTEM_CALLS; number++) {
		if (!program.system_calls[number])
			continue;
		fprintf(out, "%s\"%u\":%lu", separator, number, program.system_calls[number]);
		separator = ",";
	}
	fprintf(out, "}");
}

void program_write(FILE *out)
{
	if (!(request.what & RECORD_PROGRAM)) {
		fprintf(out, "null");
		return;
	}
	fprintf(out, "{\"parts\":%u,\"windows\":%lu,\"lost_windows\":%lu,", program.parts, program.windows,
		program.lost_windows);
	write_instructions(out);
	fprintf(out, ",");
	write_system_calls(out);
	fprintf(out, ",\"other_system_calls\":%lu}", program.other_system_calls);
}
