// SPDX-License-Identifier: GPL-2.0-or-later
#include "recording/results.h"

#include <string.h>

#include "arch/guest.h"
#include "cpu/cpu.h"
#include "execution/blocks.h"
#include "execution/operations.h"
#include "execution/program.h"
#include "execution/stacks.h"
#include "memory/accesses.h"
#include "memory/allocations.h"
#include "memory/allocators.h"
#include "memory/pages.h"
#include "protocol/folder.h"
#include "protocol/request.h"
#include "qemu/time_slices.h"
#include "recording/parts.h"
#include "trace/traces.h"
#include "translation/symbols.h"
#include "translation/translation.h"

static uint64_t stack_accesses[NR_CONTEXTS];

static void write_contexts(FILE *out, const char *name, const uint64_t values[NR_CONTEXTS])
{
	fprintf(out, ",\"%s\":{", name);
	for (int context = 0; context < NR_CONTEXTS; context++)
		fprintf(out, "%s\"%s\":%lu", context ? "," : "", context_name(context), values[context]);
	fprintf(out, "}");
}

/* All that a table had no room for, by name. */
static void write_lost(FILE *out)
{
	struct chains_lost chains = chains_lost();
	struct symbols_lost symbols = symbols_lost();
	uint64_t accesses = 0, instructions = 0, acquisitions = 0, held_locks = 0, entries = 0;

	for_each_cpu(cpu) {
		accesses += cpu->lines.counts.lost + cpu->shared_lines.counts.lost;
		instructions += cpu->instructions.counts.lost;
		acquisitions += cpu->locks.table.counts.lost;
		held_locks += cpu->locks.table.forgotten;
		entries += cpu->contexts.lost_entries;
	}
	fprintf(out, ",\"lost\":{\"accesses\":%lu,\"instructions\":%lu,\"acquisitions\":%lu,\"held_locks\":%lu",
		accesses, instructions, acquisitions, held_locks);
	fprintf(out, ",\"calls\":%lu,\"chains\":%lu,\"stacks\":%lu,\"nested_interrupts\":%lu", chains.calls,
		chains.chains, stacks_evicted(), entries);
	fprintf(out, ",\"allocations\":%lu,\"pages\":%lu,\"traced_accesses\":%lu", allocators_lost(), pages_lost(),
		traces_lost());
	fprintf(out, ",\"symbols\":%lu,\"functions\":%lu,\"entry_points\":%lu,\"lock_functions\":%lu", symbols.parts,
		symbols.functions, symbols.entries, symbols.lock_functions);
	fprintf(out, ",\"unseen\":%lu}", translation_unseen());
}

static void write_per_cpu_offsets(FILE *out)
{
	const uint64_t *offsets = symbols_per_cpu_offsets();

	fprintf(out, ",\"per_cpu_offsets\":[");
	for (unsigned int nr = 0; offsets && nr < cpus.nr; nr++)
		fprintf(out, "%s%lu", nr ? "," : "", offsets[nr]);
	fprintf(out, "]");
}

static int write_summary(FILE *out)
{
	uint64_t accesses[NR_CONTEXTS] = { 0 }, instructions[NR_CONTEXTS] = { 0 }, unreleased = 0;

	for_each_cpu(cpu) {
		for (int context = 0; context < NR_CONTEXTS; context++) {
			accesses[context] += cpu->lines.accesses[context];
			instructions[context] += cpu->instructions.instructions[context];
		}
		unreleased += cpu->locks.table.unreleased;
	}
	fprintf(out, "{\"operations\":");
	operations_write(out);
	fprintf(out, ",\"entries\":%u,\"stack_bytes\":%lu", symbols_nr_interrupts(), guest.stack_bytes);
	write_per_cpu_offsets(out);
	write_contexts(out, "accesses", accesses);
	write_contexts(out, "stack_accesses", stack_accesses);
	write_contexts(out, "instructions", instructions);
	fprintf(out, ",\"unreleased\":%lu,\"traces\":", unreleased);
	traces_write_summary(out);
	fprintf(out, ",\"time_slice_instructions\":%lu,\"program\":", time_slice.instructions);
	program_write(out);
	write_lost(out);
	fprintf(out, "}\n");
	return ferror(out) ? -1 : 0;
}

/* The shared ones, and all others in a file of their own. */
static int write_all_lines(FILE *out)
{
	FILE *others = folder_open("other_lines", "w");
	int failed;

	if (!others)
		return -1;
	failed = lines_write_shared(out, others, cpus.line_tables, cpus.nr, guest.arch->line_bytes, stacks_contain,
				    stack_accesses);
	return fclose(others) || failed ? -1 : 0;
}

static int write_lines(FILE *out)
{
	memset(stack_accesses, 0, sizeof(stack_accesses));
	if (request.what & RECORD_PROGRAM)
		return program_write_lines(out, stack_accesses);
	if (request.what & RECORD_LAYOUT)
		return write_all_lines(out);
	return lines_write_shared(out, NULL, cpus.line_tables, cpus.nr, guest.arch->line_bytes, stacks_contain,
				  stack_accesses);
}

static int write_instructions(FILE *out)
{
	return instructions_write(out, cpus.instruction_tables, cpus.nr);
}

static int write_locks(FILE *out)
{
	return locks_write(out, cpus.lock_tables, cpus.nr);
}

static int write_trace(FILE *out)
{
	return traces_write(out, cpus.line_tables, cpus.nr, guest.arch->line_bytes);
}

static int write_file(const char *name, int (*write)(FILE *out))
{
	FILE *out = folder_open(name, "w");
	int failed;

	if (!out)
		return -1;
	failed = write(out);
	return fclose(out) || failed ? -1 : 0;
}

void results_write(void)
{
	static const struct {
		const char *name;
		int (*write)(FILE *out);
	} files[] = {
		{ "lines", write_lines },
		{ "chains.csv", chains_write },
		{ "instructions.csv", write_instructions },
		{ "locks.csv", write_locks },
		{ "trace.csv", write_trace },
		{ "allocations.csv", allocations_write },
		{ "pages.csv", pages_write },
		{ "recording.json", write_summary }, /* last: it says that the rest is whole */
	};

	if (request.what & RECORD_PROGRAM)
		parts_end();
	operations_stop();
	accesses_flush();
	blocks_flush();
	for (unsigned int i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (write_file(files[i].name, files[i].write))
			return;
}
