// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A QEMU plugin that instruments the kernel as the recorder does, with callbacks that do nothing: what the emulator takes
 * for them whatever they count. INSTRUMENT says which: it is compiled for each.
 *
 *	NOTHING		only the agent's marks
 *	BLOCKS		each block of instructions
 *	CALLS		each call and return
 *	ACCESSES	each access to memory that the recorder looks at: all but those by the stack pointer
 *	ALL_ACCESSES	all of them
 *
 * It is compiled with the recorder's own guest.c and architectures, to take the same instructions for the same.
 */
#include <stdio.h>

#include "../../guest/protocol/recorder.h"
#include "arch/guest.h"
#include "lib/attributes.h"

EXPORT int qemu_plugin_version = OLD_API_VERSION; /* of QEMU 10 */
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

enum instrument { NOTHING, BLOCKS, CALLS, ACCESSES, ALL_ACCESSES };

static const enum instrument instrument = INSTRUMENT;
static qemu_plugin_id_t plugin;
static bool armed;

static void install(qemu_plugin_id_t id);

static void nothing(unsigned int nr UNUSED, void *userdata UNUSED)
{
}

static void nothing_accessed(unsigned int nr UNUSED, qemu_plugin_meminfo_t info UNUSED, uint64_t address UNUSED,
			     void *userdata UNUSED)
{
}

static void on_mark(unsigned int nr UNUSED, void *userdata UNUSED)
{
	uint64_t mark = guest_read_register(guest.registers.mark[1]);

	if (guest_read_register(guest.registers.mark[0]) != RECORDER_MAGIC)
		return;
	if (mark != MARK_ARM && mark != MARK_DISARM)
		return;
	armed = mark == MARK_ARM;
	qemu_plugin_reset(plugin, install, plugin);
}

static void watch_accesses(struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_mem_cb(insn, nothing_accessed, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
}

/* As the recorder does: where the stack register is read, the callback needs registers. */
static void watch_call(struct qemu_plugin_insn *insn, enum insn_kind kind)
{
	bool returns = kind == INSN_RETURN || kind == INSN_MAY_RETURN;

	if (guest.registers.stack)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, nothing, QEMU_PLUGIN_CB_R_REGS, NULL);
	else
		qemu_plugin_register_vcpu_mem_cb(insn, nothing_accessed, QEMU_PLUGIN_CB_NO_REGS,
						 returns ? QEMU_PLUGIN_MEM_R : QEMU_PLUGIN_MEM_W, NULL);
}

static void translate_kernel(struct qemu_plugin_insn *insn, enum insn_kind kind)
{
	bool calls = kind == INSN_CALL || kind == INSN_CALL_BY_MEMORY || kind == INSN_RETURN || kind == INSN_MAY_RETURN;

	if (instrument == CALLS && calls)
		watch_call(insn, kind);
	if (instrument == ALL_ACCESSES ||
	    (instrument == ACCESSES && (kind == INSN_OTHER || kind == INSN_CALL_BY_MEMORY || kind == INSN_STRING)))
		watch_accesses(insn);
}

static void on_translation(void *id UNUSED, void *block)
{
	struct qemu_plugin_tb *tb = block;
	bool kernel = armed && is_kernel_address(qemu_plugin_tb_vaddr(tb));

	if (kernel && instrument == BLOCKS)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, nothing, QEMU_PLUGIN_CB_NO_REGS, NULL);
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t bytes[16];
		size_t size = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));

		if (guest.arch->is_mark(bytes, size))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, QEMU_PLUGIN_CB_R_REGS, NULL);
		if (kernel)
			translate_kernel(insn, guest.arch->classify(bytes, size));
	}
}

static void on_cpu_init(void)
{
	guest_find_registers();
}

static void install(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation, NULL);
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc UNUSED, char **argv UNUSED)
{
	if (!guest_init(info->target_name)) {
		fprintf(stderr, "callbacks: no support for %s\n", info->target_name);
		return -1;
	}
	plugin = id;
	qemu_plugin_register_vcpu_init_cb(id, on_cpu_init, NULL);
	install(id);
	return 0;
}
