// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/exclusives.h"

#include "cpu/cpu.h"
#include "lib/attributes.h"

static struct exclusive value_of(qemu_plugin_meminfo_t info)
{
	qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);

	switch (value.type) {
	case 0:
		return (struct exclusive){ .low = value.data.u8 };
	case 1:
		return (struct exclusive){ .low = value.data.u16 };
	case 2:
		return (struct exclusive){ .low = value.data.u32 };
	case 3:
		return (struct exclusive){ .low = value.data.u64 };
	default:
		return (struct exclusive){ .low = value.data.u128.low, .high = value.data.u128.high };
	}
}

static void on_load(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address UNUSED, void *site)
{
	struct exclusive *exclusive = &this_cpu()->exclusive;

	*exclusive = value_of(info);
	exclusive->site = (uint64_t)site;
}

void exclusives_watch_load(struct qemu_plugin_insn *insn, void *site)
{
	qemu_plugin_register_vcpu_mem_cb(insn, on_load, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R, site);
}

/* A store to another address than the load's, or behind an interrupt, accesses nothing. */
bool exclusives_is_write(struct exclusive *exclusive, qemu_plugin_meminfo_t info)
{
	struct exclusive found;

	if (qemu_plugin_mem_is_store(info))
		return !exclusive->failed;
	found = value_of(info);
	exclusive->failed = found.low != exclusive->low || found.high != exclusive->high;
	return false;
}
