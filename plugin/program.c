// SPDX-License-Identifier: GPL-2.0-or-later
#include "program.h"

#include <string.h>

#include "accesses.h"
#include "blocks.h"
#include "control_flow.h"
#include "cpu.h"
#include "request.h"
#include "translation.h"

#define NR_SYSTEM_CALLS 1024 /* Linux has less than 500 */

static struct {
	unsigned int parts;
	bool runs; /* a part */
	uint64_t system_calls[NR_SYSTEM_CALLS];
	uint64_t other_system_calls;
} program;

static void set_recording(bool recording)
{
	program.runs = recording;
	for_each_cpu(cpu)
		cpu->recording = recording;
}

void program_arm(void)
{
	memset(&program, 0, sizeof(program));
	for_each_cpu(cpu)
		cpu->user_instructions = 0;
}

void program_begin(void)
{
	if (program.runs)
		return;
	program.parts++;
	control_flow_begin();
	set_recording(true);
	translation_arm(true);
}

void program_end(void)
{
	accesses_flush();
	blocks_flush();
	set_recording(false);
	translation_arm(false);
}

void program_count_system_call(uint64_t number)
{
	if (number < NR_SYSTEM_CALLS)
		program.system_calls[number]++;
	else
		program.other_system_calls++;
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
	fprintf(out, "{\"parts\":%u,", program.parts);
	write_instructions(out);
	fprintf(out, ",");
	write_system_calls(out);
	fprintf(out, ",\"other_system_calls\":%lu}", program.other_system_calls);
}
