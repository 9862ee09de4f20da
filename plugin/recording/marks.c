// SPDX-License-Identifier: GPL-2.0-or-later
#include "recording/marks.h"

#include "arch/guest.h"
#include "cpu/cpu.h"
#include "execution/control_flow.h"
#include "execution/operations.h"
#include "execution/program.h"
#include "execution/stacks.h"
#include "lib/attributes.h"
#include "protocol/folder.h"
#include "protocol/request.h"
#include "qemu/time_slices.h"
#include "recording/parts.h"
#include "recording/results.h"
#include "recording/tests.h"
#include "trace/traces.h"
#include "translation/symbols.h"
#include "translation/translation.h"

#define LINES_BYTES (384ull << 20) /* for all CPUs together */
#define ALL_LINES_BYTES (1536ull << 20) /* the same if lines of one CPU are written, too */
#define MAX_SYMBOLS_PART (1 << 20)

static bool is_asked; /* from MARK_ARM to MARK_DISARM */
static bool was_asked; /* from the first MARK_ARM on: whatever runs since has no symbols to add */

static void mark_symbols(uint64_t address, size_t length)
{
	static FILE *file;

	if (!file)
		file = folder_open("kallsyms", "a+"); /* a resumed snapshot has its kernel's symbols there */
	symbols_receive(address, length, file);
}

static void arm_lines(struct line_table *lines)
{
	bool all = request.what & RECORD_LAYOUT;

	lines_init(lines, (all ? ALL_LINES_BYTES : LINES_BYTES) / cpus.nr);
	lines->by_bytes = all;
}

static void mark_arm(uint64_t address, size_t length)
{
	const struct recorder_arm *wanted;

	if (is_asked || length != sizeof(*wanted))
		return;
	wanted = guest_read_memory(address, length);
	if (!wanted || !request_is_valid(wanted))
		return;
	if (request.what & RECORD_TRACE)
		stacks_end_traces();
	request = *wanted;
	is_asked = was_asked = true;
	operations_arm();
	program_arm();
	traces_arm(request.what & RECORD_TRACE ? request.nr_slots : 0, request.operations);
	for_each_cpu(cpu) {
		arm_lines(&cpu->lines);
		instructions_init(&cpu->instructions);
		locks_init(&cpu->locks.table);
	}
	tests_arm();
	control_flow_arm();
	translation_arm(true);
}

static void mark_disarm(void)
{
	is_asked = false;
	tests_disarm();
	results_write();
	translation_arm(false);
}

static void mark_time_slices(uint64_t instructions, uint64_t seed)
{
	time_slices_set(instructions, seed);
	translation_again();
}

static void mark_part(enum recorder_mark mark)
{
	if (mark == MARK_BEGIN)
		parts_begin();
	else if (mark == MARK_END)
		parts_end();
}

void on_mark(unsigned int nr UNUSED, void *userdata UNUSED)
{
	struct qemu_plugin_register *const *registers = guest.registers.mark;
	uint64_t mark, memory, length;

	if (guest_read_register(registers[0]) != RECORDER_MAGIC)
		return;
	mark = guest_read_register(registers[1]);
	memory = guest_read_register(registers[2]);
	length = guest_read_register(registers[3]);
	if (mark == MARK_SYMBOLS && length <= MAX_SYMBOLS_PART && !was_asked)
		mark_symbols(memory, length);
	else if (mark == MARK_ARM)
		mark_arm(memory, length);
	else if (mark == MARK_TIME_SLICES)
		mark_time_slices(length, memory);
	else if (mark == MARK_AGENT && translation_is_armed())
		control_flow_expect_agent();
	else if (mark == MARK_DISARM && is_asked)
		mark_disarm();
	else if (is_asked && request.what & RECORD_TESTS)
		tests_on_mark(mark, length);
	else if (is_asked && request.what & RECORD_PROGRAM)
		mark_part(mark);
}
