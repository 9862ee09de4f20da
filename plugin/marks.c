// SPDX-License-Identifier: GPL-2.0-or-later
#include "marks.h"

#include "../guest/recorder.h"
#include "contexts.h"
#include "cpu.h"
#include "guest.h"
#include "operations.h"
#include "results.h"
#include "symbols.h"
#include "tests.h"
#include "translation.h"

#define LINES_BYTES (384ull << 20) /* for all CPUs together */
#define MAX_SYMBOLS_PART (1 << 20)

static void mark_symbols(uint64_t address, size_t length)
{
	static FILE *file;

	if (!file)
		file = results_open("kallsyms", "a+"); /* a machine that was kept has those of its kernel there */
	symbols_receive(address, length, file);
}

static void mark_arm(uint64_t address, size_t length)
{
	const struct recorder_arm *wanted;

	if (translation_is_armed() || length != sizeof(*wanted))
		return;
	wanted = guest_read_memory(address, length);
	if (!wanted || !operations_arm(wanted))
		return;
	for_each_cpu(cpu) {
		lines_init(&cpu->lines, LINES_BYTES / cpus.nr);
		work_init(&cpu->work);
		locks_init(&cpu->lock_table);
	}
	tests_arm();
	contexts_arm();
	translation_arm(true);
}

static void mark_disarm(void)
{
	tests_disarm();
	results_write();
	translation_arm(false);
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
	if (mark == MARK_SYMBOLS && length <= MAX_SYMBOLS_PART)
		mark_symbols(memory, length);
	else if (mark == MARK_ARM)
		mark_arm(memory, length);
	else if (mark == MARK_AGENT && translation_is_armed())
		contexts_expect_agent();
	else if (mark == MARK_DISARM && translation_is_armed())
		mark_disarm();
	else if (translation_is_armed() && arm.what & RECORD_TESTS)
		tests_on_mark(mark, length);
}
