// SPDX-License-Identifier: GPL-2.0-or-later
#include "arch/guest.h"

#include <string.h>

struct guest guest;

static GArray *registers; /* the same of every CPU */
static GByteArray *value, *memory;

bool guest_init(const char *target)
{
	static const struct arch *const archs[] = { &arch_x86_64, &arch_ppc64le, &arch_aarch64 };

	for (unsigned int i = 0; i < sizeof(archs) / sizeof(*archs); i++)
		if (!strcmp(target, archs[i]->target))
			guest.arch = archs[i];
	value = g_byte_array_new();
	memory = g_byte_array_new();
	return guest.arch;
}

struct qemu_plugin_register *guest_register(const char *name)
{
	size_t bytes = g_array_get_element_size(registers);

	for (unsigned int i = 0; name && i < registers->len; i++) {
		const qemu_plugin_reg_descriptor *descriptor = (void *)(registers->data + i * bytes);

		if (!strcmp(descriptor->name, name))
			return descriptor->handle;
	}
	return NULL;
}

void guest_find_registers(void)
{
	const struct arch *arch = guest.arch;

	if (registers)
		return;
	registers = qemu_plugin_get_registers();
	for (int i = 0; i < 4; i++)
		guest.registers.mark[i] = guest_register(arch->mark_registers[i]);
	guest.registers.result = guest_register(arch->call_registers[0]);
	guest.registers.first_argument = guest_register(arch->call_registers[1]);
	guest.registers.fourth_argument = guest_register(arch->call_registers[2]);
	guest.registers.stack = guest_register(arch->stack_register);
	guest.registers.entry_stack = guest_register(arch->entry_stack_register);
	guest.registers.system_call = guest_register(arch->system_call_register);
	guest.registers.condition = guest_register(arch->condition_register);
	guest.registers.state = guest_register(arch->state_register);
	guest.registers.saved_state = guest_register(arch->saved_state_register);
	guest.registers.repeats = guest_register(arch->repeats_register);
}

uint64_t guest_read_register(struct qemu_plugin_register *handle)
{
	uint64_t number = 0;

	g_byte_array_set_size(value, 0);
	qemu_plugin_read_register(handle, value);
	if (value->len <= sizeof(number))
		memcpy(&number, value->data, value->len);
	return number;
}

/*
 * QEMU keeps the stack pointer in its state of the CPU, at an offset that is not public. Reading the register through QEMU
 * at each call and return takes a quarter of a recording's time. So the offset is searched for: it is the one that held
 * the register's value each time that the value had changed. If there is none, each read goes through QEMU. If there is
 * one, some reads still do, in case the match was chance.
 */
#define SEARCHED (32 << 10) /* bytes; the state is larger, as 1024 special registers are part of it */
#define ENOUGH 64	    /* values that matched */
#define CHECKED_EVERY 4096  /* reads; a power of two */

static struct {
	uint32_t places[SEARCHED / sizeof(uint64_t)];
	unsigned int nr_places, agreed, reads;
	uint64_t last;
} search = { .nr_places = ~0u };

static uint64_t state_word(uint32_t place)
{
	return ((const uint64_t *)current_cpu)[place];
}

static void search_for(uint64_t value)
{
	unsigned int left = 0;

	if (value == search.last)
		return;
	search.last = value;
	if (search.nr_places == ~0u)
		for (search.nr_places = 0; search.nr_places < SEARCHED / sizeof(uint64_t); search.nr_places++)
			search.places[search.nr_places] = search.nr_places;
	for (unsigned int i = 0; i < search.nr_places; i++)
		if (state_word(search.places[i]) == value)
			search.places[left++] = search.places[i];
	search.nr_places = left;
	search.agreed++;
}

uint64_t guest_stack_pointer(void)
{
	uint64_t value;

	if (search.agreed >= ENOUGH && search.nr_places == 1 && ++search.reads % CHECKED_EVERY)
		return state_word(search.places[0]);
	value = guest_read_register(guest.registers.stack);
	if (search.nr_places)
		search_for(value);
	return value;
}

const void *guest_read_memory(uint64_t address, size_t length)
{
	return qemu_plugin_read_memory_vaddr(address, memory, length) && memory->len >= length ? memory->data : NULL;
}

/*
 * THREAD_SIZE depends on the kernel's configuration (CONFIG_KASAN, CONFIG_THREAD_SHIFT). Kernels without
 * CONFIG_KALLSYMS_ALL and BTF do not export it. But each stack ends with a magic number that an overflow would destroy:
 * include/uapi/linux/magic.h. Before 4.9 (x86) and 5.1 (POWER) a struct thread_info lies before the number.
 */
#define STACK_END_MAGIC 0x57ac6e9dull
#define MOST_THREAD_INFO 256 /* bytes */
#define SMALLEST_STACK 4096
#define LARGEST_STACK (128 << 10)

static bool is_stack_end(uint64_t address)
{
	const uint64_t *words = guest_read_memory(address, MOST_THREAD_INFO);

	for (unsigned int i = 0; words && i < MOST_THREAD_INFO / sizeof(*words); i++)
		if (words[i] == STACK_END_MAGIC)
			return true;
	return false;
}

/* The smallest size comes first: a multiple of a larger size may be the end of another stack. */
bool guest_find_stack_bytes(uint64_t near_top)
{
	for (uint64_t bytes = SMALLEST_STACK; !guest.stack_bytes && bytes <= LARGEST_STACK; bytes *= 2)
		if (is_stack_end(near_top & -bytes))
			guest.stack_bytes = bytes;
	return guest.stack_bytes;
}
