// SPDX-License-Identifier: GPL-2.0-or-later
#include "execution/user_code.h"

#include "arch/guest.h"
#include "execution/operations.h"
#include "lib/attributes.h"
#include "memory/accesses.h"
#include "protocol/request.h"
#include "trace/trace_events.h"

static NOINLINE void count_operation(qemu_plugin_meminfo_t info, uint64_t address)
{
	struct counted_operation counted = operations_count(info, address);

	if (counted.begins)
		accesses_next_operation(counted.cpu);
	if (!(request.what & RECORD_TRACE))
		return;
	if (counted.is_recorded)
		trace_events_next(this_cpu(), counted.task, counted.number);
	else
		trace_events_last(this_cpu(), counted.task);
}

static void on_store(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *userdata UNUSED)
{
	if (request_is_slot(address))
		count_operation(info, address);
}

static void on_access(unsigned int nr, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
	if (qemu_plugin_mem_is_store(info) && request_is_slot(address))
		count_operation(info, address);
	accesses_count(nr, info, address, site);
}

/* All memory is watched, the stack too: other tasks may have a pointer to what lies there. */
static void watch_accesses(struct qemu_plugin_insn *insn, enum insn_kind kind)
{
	/* A page fault in user memory may end a fill early: its stores are counted one by one. */
	if (kind == INSN_STRING || kind == INSN_FILL)
		accesses_watch_string(insn);
	else
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
						 accesses_site(insn));
}

void user_code_watch(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size)
{
	if (request.what & RECORD_USER && request.what & RECORD_CONFLICTS)
		watch_accesses(insn, guest.arch->classify(bytes, size));
	else if (!(request.what & (RECORD_TESTS | RECORD_PROGRAM)))
		qemu_plugin_register_vcpu_mem_cb(insn, on_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, NULL);
}
