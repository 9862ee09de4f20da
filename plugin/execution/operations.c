// SPDX-License-Identifier: GPL-2.0-or-later
#include "execution/operations.h"

#include <stdlib.h>

#include "lib/xalloc.h"
#include "protocol/request.h"

static struct slot {
	uint64_t first, last; /* values of the task's counter */
	uint64_t operations;  /* done while its CPU is recorded, for itself or for another task there */
	struct cpu *cpu;
	enum { SLOT_WAITS, SLOT_RECORDS, SLOT_DONE } state;
} *slots;

void operations_arm(void)
{
	free(slots);
	slots = xcalloc(request.nr_slots, sizeof(*slots));
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
		if (cpu == slot->cpu || request.what & RECORD_EVERYWHERE)
			cpu->recording += by;
}

struct counted_operation operations_count(qemu_plugin_meminfo_t info, uint64_t address)
{
	uint64_t task = (address - request.slots) / request.slot_bytes, value = stored_value(info);
	struct slot *slot = &slots[task];
	bool begins = value != slot->last;

	if (slot->state == SLOT_WAITS) {
		slot->first = value;
		slot->cpu = this_cpu();
		slot->state = SLOT_RECORDS;
		change_recording(slot, 1);
	} else if (slot->cpu->recording) {
		slot->operations += value - slot->last;
	}
	slot->last = value;
	if (slot->state == SLOT_RECORDS && value - slot->first >= request.operations) {
		slot->state = SLOT_DONE;
		change_recording(slot, -1);
	}
	return (struct counted_operation){
		.cpu = slot->cpu,
		.task = task,
		.number = value - slot->first,
		.begins = begins,
		.is_recorded = slot->state == SLOT_RECORDS,
	};
}

void operations_stop(void)
{
	for_each_cpu(cpu)
		cpu->recording = 0;
}

void operations_write(FILE *out)
{
	fprintf(out, "[");
	for (uint64_t i = 0; i < request.nr_slots; i++)
		fprintf(out, "%s%lu", i ? "," : "", slots[i].operations);
	fprintf(out, "]");
}
