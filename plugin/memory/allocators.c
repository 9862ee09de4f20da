// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/allocators.h"

#include <string.h>

#include "arch/guest.h"
#include "lib/attributes.h"
#include "lib/names.h"
#include "memory/allocations.h"

#define MAX_ERRNO 4095 /* errors are the last addresses: include/linux/err.h */
#define MAX_BULK 4096 /* objects that one call allocates */

static uint64_t lost;

/* Functions of mm/slub.c from 5.10 to 7.2. Those for large objects have no cache. */
enum entry_kind allocator_kind(const char *symbol)
{
	static const char *const prefixes[] = { "__kmalloc", "kmalloc_trace", "kmalloc_node_trace", "kmem_cache_alloc" };

	for (unsigned int i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		if (!starts_with(symbol, prefixes[i]))
			continue;
		if (strstr(symbol, ".cold") || strstr(symbol, "_large"))
			return ENTRY_NONE;
		return strstr(symbol, "_bulk") ? ENTRY_ALLOC_BULK : ENTRY_ALLOC;
	}
	return ENTRY_NONE;
}

static void on_alloc(unsigned int nr UNUSED, void *userdata UNUSED)
{
	chain_allocates(&this_cpu()->contexts.stack->calls, guest_read_register(guest.registers.first_argument), 0);
}

static void on_alloc_bulk(unsigned int nr UNUSED, void *userdata UNUSED)
{
	chain_allocates(&this_cpu()->contexts.stack->calls, guest_read_register(guest.registers.first_argument),
			guest_read_register(guest.registers.fourth_argument));
}

void allocators_watch_entry(struct qemu_plugin_insn *insn, enum entry_kind kind)
{
	if (kind == ENTRY_ALLOC)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_alloc, QEMU_PLUGIN_CB_R_REGS, NULL);
	else if (kind == ENTRY_ALLOC_BULK)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_alloc_bulk, QEMU_PLUGIN_CB_R_REGS, NULL);
}

/* The result is how many objects there are. The array has pointers to them. */
static void add_bulk(const struct allocation *allocation, uint64_t nr)
{
	const uint64_t *objects = NULL;

	if (nr <= MAX_BULK)
		objects = guest_read_memory(allocation->array, nr * sizeof(*objects));
	if (!objects)
		lost += nr <= INT32_MAX ? nr : 1; /* the kernel's type for it is int */
	for (uint64_t i = 0; objects && i < nr; i++)
		allocations_add(objects[i], allocation);
}

NOINLINE void allocators_returned(struct cpu *cpu, uint64_t sp)
{
	struct allocation allocation;
	uint64_t result;

	if (!chain_allocated(&cpu->contexts.stack->calls, sp, &allocation))
		return;
	result = guest_read_register(guest.registers.result);
	if (allocation.array)
		add_bulk(&allocation, result);
	else if (is_kernel_address(result) && result < -(uint64_t)MAX_ERRNO)
		allocations_add(result, &allocation);
}

uint64_t allocators_lost(void)
{
	return lost + allocations_lost() + chains_lost().allocations;
}
