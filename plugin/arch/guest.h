/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The guest: its architecture, the registers of the CPU that runs, its memory. */
#ifndef GUEST_H
#define GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "qemu/qemu_api.h"

/* NULL where the architecture has no need of it. */
struct guest_registers {
	struct qemu_plugin_register *mark[4]; /* magic, mark, memory, length (guest/protocol/recorder.h) */
	struct qemu_plugin_register *result, *first_argument, *fourth_argument; /* of a call */
	struct qemu_plugin_register *stack, *entry_stack, *system_call, *condition, *state, *saved_state, *repeats;
};

/* Set by guest_init(), guest_find_registers() and guest_find_stack_bytes(), and then constant. */
extern struct guest {
	const struct arch *arch;
	struct guest_registers registers;
	uint64_t stack_bytes; /* size and alignment of a kernel stack; 0: not known yet */
} guest;

/* Whether there is an architecture for QEMU's target of that name. */
bool guest_init(const char *target);

/* The first CPU exists: registers have handles. */
void guest_find_registers(void);
struct qemu_plugin_register *guest_register(const char *name);

uint64_t guest_read_register(struct qemu_plugin_register *handle);

/* The stack register: fast enough for each call and return. */
uint64_t guest_stack_pointer(void);

/* The memory at an address, valid until the next call; NULL if it cannot be read. */
const void *guest_read_memory(uint64_t address, size_t length);

/* Find the size of the kernel's stacks: one of them is in use down to this address. Returns whether it is known now. */
bool guest_find_stack_bytes(uint64_t near_top);

static inline bool is_kernel_address(uint64_t address)
{
	return address >= guest.arch->kernel_start;
}

/* Whether the address is known to be memory, without a call of QEMU. */
static inline bool is_kernel_memory(uint64_t address)
{
	for (unsigned int i = 0; i < 2; i++)
		if (address - guest.arch->memory[i].from < guest.arch->memory[i].to - guest.arch->memory[i].from)
			return true;
	return false;
}

/* Whether an access to an address of the kernel goes to a device's registers. */
static inline bool guest_is_mmio(qemu_plugin_meminfo_t info, uint64_t address)
{
	struct qemu_plugin_hwaddr *hwaddr;

	/* Most accesses of the kernel are to its memory, and QEMU's answer takes longer than counting does. */
	if (is_kernel_memory(address))
		return false;
	hwaddr = qemu_plugin_get_hwaddr(info, address);
	return hwaddr && qemu_plugin_hwaddr_is_io(hwaddr);
}

/* The base of the kernel stack that holds the address; 0 while the size of stacks is not known. */
static inline uint64_t stack_base(uint64_t address)
{
	return address & -guest.stack_bytes;
}

#endif
