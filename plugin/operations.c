// SPDX-License-Identifier: GPL-2.0-or-later
#include "operations.h"

#include <stdlib.h>

#include "accesses.h"
#include "cpu.h"
#include "guest.h"
#include "trace_events.h"
#include "xalloc.h"

#define MAX_SLOTS (1 << 20)

struct recorder_arm arm;

static struct slot {
	uint64_t first, last; /* values of the task's counter */
	uint64_t operations;  /* done while its CPU records, for itself or for another task there */
	struct cpu *cpu;
	enum { SLOT_WAITS, SLOT_RECORDS, SLOT_DONE } state;
} *slots;

bool operations_arm(const struct recorder_arm *wanted)
{
	if (!wanted->slot_bytes || wanted->nr_slots > MAX_SLOTS)
		return false;
	if (arm.what & RECORD_TRACE)
		trace_events_forget();
	arm = *wanted;
	free(slots);
	slots = xcalloc(arm.nr_slots, sizeof(*slots));
	traces_arm(arm.what & RECORD_TRACE ? arm.nr_slots : 0, arm.operations);
	return true;
}

static uint64_t stored_value(qemu_plugin_meminfo_t info)
{
	qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);

	return value.type == 3 ? value.data.u64 : value.data.u32;
}

/* A task has begun its recorded operations, or ended them. */
static void change_recording(const struct slot *slot, int by)
{
	for_each_cpu(cpu)
		if (cpu == slot->cpu || arm.what & RECORD_EVERYWHERE)
			cpu->recording += by;
}

static void trace(const struct slot *slot)
{
	uint64_t task = slot - slots;

	if (slot->state == SLOT_RECORDS)
		trace_events_next(this_cpu(), task, slot->last - slot->first);
	else
		trace_events_last(this_cpu(), task);
}

void operations_stored(qemu_plugin_meminfo_t info, uint64_t address)
{
	struct slot *slot;
	uint64_t value;

	if (!is_operations_slot(address))
		return;
	slot = &slots[(address - arm.slots) / arm.slot_bytes];
	value = stored_value(info);
	if (slot->state == SLOT_WAITS) {
		slot->first = value;
		slot->cpu = this_cpu();
		slot->state = SLOT_RECORDS;
		change_recording(slot, 1);
	} else if (slot->cpu->recording) {
		slot->operations += value - slot->last;
	}
	if (value != slot->last) {
		accesses_end_strings(slot->cpu);
		open_lines_next_operation(&slot->cpu->open);
	}
	slot->last = value;
	if (slot->state == SLOT_RECORDS && value - slot->first >= arm.operations) {
		slot->state = SLOT_DONE;
		change_recording(slot, -1);
	}
	if (arm.what & RECORD_TRACE)
		trace(slot);
}

static void on_user_store(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address,
			  void *userdata UNUSED)
{
	operations_stored(info, address);
}

void operations_watch(struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_mem_cb(insn, on_user_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, NULL);
}

void operations_stop(void)
{
	for_each_cpu(cpu)
		cpu->recording = 0;
}

void operations_write(FILE *out)
{
	fprintf(out, "[");
	for (uint64_t i = 0; i < arm.nr_slots; i++)
		fprintf(out, "%s%lu", i ? "," : "", slots[i].operations);
	fprintf(out, "]");
}
