// SPDX-License-Identifier: GPL-2.0-or-later
#include "translation/translation.h"

#include "arch/guest.h"
#include "execution/blocks.h"
#include "execution/control_flow.h"
#include "execution/lock_calls.h"
#include "execution/user_code.h"
#include "lib/attributes.h"
#include "many_cpus/code_pages.h"
#include "memory/accesses.h"
#include "memory/allocators.h"
#include "protocol/request.h"
#include "qemu/time_slices.h"
#include "trace/trace_events.h"
#include "translation/symbols.h"

#define MAX_INSN_BYTES 16
#define BYTES_BEFORE 4 /* of code before a block: enough to see whether it ends with a fill */

static struct {
	qemu_plugin_id_t id;
	bool block_is_first; /* of the arguments of a callback of translation */
	qemu_plugin_vcpu_udata_cb_t on_mark;
	bool armed;
	uint64_t unseen;
} translation;

/* `before` is the code before the instruction; NULL if that is not known. */
static void translate_access(struct qemu_plugin_insn *insn, enum insn_kind kind, const uint8_t *bytes, size_t size,
			     size_t early, const uint8_t *before, size_t size_before)
{
	bool traced = request.what & RECORD_TRACE;

	if (before)
		accesses_watch_next(insn, before, size_before);
	accesses_watch(insn, kind, bytes, size, traced ? trace_events_place(bytes, size, early) : 0);
	if (traced && kind == INSN_STRING)
		trace_events_watch_string(insn, early);
	if (traced)
		trace_events_watch_broadcast(insn, bytes, size, early);
}

static void translate_entry(struct qemu_plugin_insn *insn, uint64_t pc)
{
	enum entry_kind kind = symbols_entry(pc);
	const struct lock_function *lock = request.what & RECORD_LOCKS ? symbols_lock_function(pc) : NULL;

	if (kind != ENTRY_NONE) {
		control_flow_watch_entry(insn, kind);
		allocators_watch_entry(insn, kind);
	}
	if (lock)
		lock_calls_watch_entry(insn, lock);
	if (request.what & RECORD_TRACE)
		trace_events_watch_entry(insn, symbols_trace_function(pc));
}

/*
 * Whether the block begins in the middle of a string instruction, which the emulator may leave after each element (with
 * -icount). The CPU's state tells: code is translated for the state that the CPU is in.
 */
static bool resumes_rep_insn(enum insn_kind kind)
{
	return (kind == INSN_FILL || kind == INSN_STRING) && guest.registers.repeats &&
	       guest_read_register(guest.registers.repeats) & guest.arch->repeat_resumes;
}

/* Only the instructions of functions are told apart by what they cost. */
static void translate_costly(struct block *block, const uint8_t *bytes, size_t size)
{
	unsigned int number = request.what & RECORD_INSTRUCTIONS ? guest.arch->costly(bytes, size) : 0;

	if (number)
		blocks_add_costly(block, number);
}

static void translate_kernel(struct qemu_plugin_tb *tb)
{
	size_t nr_insns = qemu_plugin_tb_n_insns(tb), size_before = BYTES_BEFORE;
	struct block *block = NULL;
	const uint8_t *before = NULL;
	uint8_t bytes[2][MAX_INSN_BYTES];

	if (request.what & RECORD_CONFLICTS)
		before = guest_read_memory(qemu_plugin_tb_vaddr(tb) - BYTES_BEFORE, BYTES_BEFORE);
	for (size_t i = 0; i < nr_insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		uint8_t *code = bytes[i % 2];
		size_t size = qemu_plugin_insn_data(insn, code, MAX_INSN_BYTES);
		enum insn_kind kind = guest.arch->classify(code, size);

		if (i == 0 && resumes_rep_insn(kind)) {
			if (kind == INSN_STRING && request.what & RECORD_CONFLICTS)
				translate_access(insn, kind, code, size, 0, NULL, 0);
			break;
		}
		translation.unseen += kind == INSN_UNSEEN;
		translate_entry(insn, pc);
		/* After the entry: the block belongs to what was entered. */
		if (i == 0 && request.what & (RECORD_INSTRUCTIONS | RECORD_LOCKS | RECORD_PROGRAM))
			block = blocks_watch(insn, symbols_function(pc), nr_insns);
		if (block)
			translate_costly(block, code, size);
		if (request.what & RECORD_LOCKS)
			lock_calls_watch(insn, code, size, nr_insns - i);
		if (kind != INSN_CALL || !symbols_is_ftrace_call(code, size, pc))
			control_flow_watch(insn, kind, code);
		if (request.what & RECORD_CONFLICTS)
			translate_access(insn, kind, code, size, nr_insns - i, before, size_before);
		before = code;
		size_before = size;
	}
}

/* What resumes a string instruction, for one element or more, executes no new one. */
static size_t nr_new_insns(struct qemu_plugin_tb *tb)
{
	uint8_t bytes[MAX_INSN_BYTES];
	size_t size = qemu_plugin_insn_data(qemu_plugin_tb_get_insn(tb, 0), bytes, sizeof(bytes));

	return resumes_rep_insn(guest.arch->classify(bytes, size)) ? 0 : qemu_plugin_tb_n_insns(tb);
}

static void translate_user(struct qemu_plugin_tb *tb)
{
	size_t nr_insns = nr_new_insns(tb);

	if (translation.armed)
		control_flow_watch_user(tb, nr_insns);
	if (translation.armed && request.what & RECORD_TRACE)
		trace_events_watch_user(tb, nr_insns);
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t bytes[MAX_INSN_BYTES];
		size_t size = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));

		if (guest.arch->is_mark(bytes, size))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, translation.on_mark, QEMU_PLUGIN_CB_R_REGS, NULL);
		else if (translation.armed)
			user_code_watch(insn, bytes, size);
	}
}

/* The CPU is about to execute what is translated, and is in the state for it. */
static bool is_user_code(uint64_t address)
{
	if (guest.registers.state)
		return state_passes(guest_read_register(guest.registers.state), guest.arch->user_state);
	return !is_kernel_address(address);
}

static void on_translation(void *first, void *second)
{
	struct qemu_plugin_tb *tb = translation.block_is_first ? first : second;

	code_pages_translate(tb);
	/* What is watched of a program's blocks counts their instructions for all uses. */
	if (!translation.armed || !(request.what & RECORD_PROGRAM))
		time_slices_watch(tb);
	if (is_user_code(qemu_plugin_tb_vaddr(tb))) {
		translate_user(tb);
	} else if (translation.armed && is_kernel_address(qemu_plugin_tb_vaddr(tb))) {
		symbols_load();
		translate_kernel(tb);
	}
}

/* All translated code was thrown away: free what was kept for it. */
static void on_flush(qemu_plugin_id_t id UNUSED)
{
	accesses_free();
	blocks_free();
	control_flow_free();
}

static void install(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation, NULL);
	qemu_plugin_register_flush_cb(id, on_flush, id);
}

uint64_t translation_unseen(void)
{
	return translation.unseen;
}

void translation_init(qemu_plugin_id_t id, int api_version, qemu_plugin_vcpu_udata_cb_t on_mark)
{
	translation.id = id;
	translation.block_is_first = api_version == NEW_API_VERSION;
	translation.on_mark = on_mark;
	install(id);
}

void translation_arm(bool armed)
{
	translation.armed = armed;
	translation_again();
}

void translation_again(void)
{
	qemu_plugin_reset(translation.id, install, translation.id);
}

bool translation_is_armed(void)
{
	return translation.armed;
}
