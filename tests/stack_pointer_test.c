// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives the search for the place where QEMU keeps the stack pointer, with a state of a CPU that is made here: the real
 * one has such a place. Standard input:
 *
 *	READS PLACE OTHER
 *
 * So many times the register has another value, which the state's words of those numbers have too (0: no word has it),
 * and is read. Standard output: how often QEMU was asked, and how many of what was read were not the value.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../plugin/arch/guest.h"
#include "byte_arrays.h"

#define WORDS (64 << 10 >> 3)

__thread void *current_cpu;
static uint64_t state[WORDS], stack_pointer = 0xc000000012340000;
static unsigned long asked;

void qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *buffer)
{
	(void)handle;
	asked++;
	*(uint64_t *)buffer->data = stack_pointer;
	buffer->len = sizeof(stack_pointer);
}

unsigned int g_array_get_element_size(GArray *array)
{
	(void)array;
	return sizeof(qemu_plugin_reg_descriptor);
}

GArray *qemu_plugin_get_registers(void)
{
	static qemu_plugin_reg_descriptor r1 = { (void *)1, "r1", NULL };
	static GArray all = { (void *)&r1, 1 };

	return &all;
}

bool qemu_plugin_read_memory_vaddr(uint64_t address, GByteArray *into, size_t length)
{
	(void)address, (void)into, (void)length;
	abort();
}

int main(void)
{
	unsigned long reads, place, other;

	guest_init("ppc64");
	guest_find_registers();
	current_cpu = state;
	while (scanf("%lu %lu %lu", &reads, &place, &other) == 3) {
		unsigned long wrong = 0;

		asked = 0;
		for (unsigned long i = 0; i < reads; i++) {
			stack_pointer += 16;
			state[place] = state[other] = stack_pointer;
			state[0] = 0;
			wrong += guest_stack_pointer() != stack_pointer;
		}
		printf("%lu %lu\n", asked, wrong);
	}
	return 0;
}
