// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives what the recorder does where instructions fill or copy memory, with a stand-in for QEMU: the real one begins a
 * fill again so seldom, and changes CPUs then by so much chance, that no workload makes it do so. Standard input:
 *
 *	CPU STACK LEVEL begin SITE ADDRESS LEFT
 *	CPU STACK LEVEL end
 *	CPU STACK LEVEL copy SITE ADDRESS BYTES
 *	CPU STACK LEVEL load|store|read|write SITE ADDRESS SHIFT
 *
 * On that CPU and stack, at that level of interrupts, rep stosb number SITE begins with so many bytes left, or the
 * instruction after it does. rep movsb copies so many bytes up by COPIED, or loads or stores one element of
 * 1 << SHIFT bytes; an instruction that is no string's reads or writes so many.
 * Its argument: the bytes of a cache line, if not 64.
 * Standard output: each CPU, line of 64 bytes, the bits of its bytes, how often it was read and written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plugin/arch/guest.h"
#include "../plugin/cpu/cpu.h"
#include "../plugin/memory/accesses.h"
#include "byte_arrays.h"

#define NR_CPUS 2
#define NR_SITES 2
#define NR_STACKS 8

struct qemu_plugin_insn {
	uint64_t pc;
	qemu_plugin_vcpu_udata_cb_t callback;
	void *userdata;
	qemu_plugin_vcpu_mem_cb_t access[2]; /* loads, stores */
	void *access_data[2];
};

#define COPIED 65536
#define STORE (1u << 16) /* of what QEMU says of an access, beside its size */

static const char rep_stosb[] = { 0xf3, 0xaa }, rep_movsb[] = { 0xf3, 0xa4 };
static struct qemu_plugin_insn fills[NR_SITES], copies[NR_SITES], others[NR_SITES], next;

/* A register's handle is its number and one. */
static qemu_plugin_reg_descriptor descriptors[] = {
	{ (void *)1, "rdi", NULL },
	{ (void *)2, "rcx", NULL },
};
static uint64_t registers[2];
static char states[NR_CPUS];

/* QEMU and GLib */

__thread void *current_cpu;

void *qemu_get_cpu(int index)
{
	return &states[index];
}

unsigned int g_array_get_element_size(GArray *array)
{
	(void)array;
	return sizeof(qemu_plugin_reg_descriptor);
}

GArray *qemu_plugin_get_registers(void)
{
	static GArray all = { (void *)descriptors, 2 };

	return &all;
}

void qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *buffer)
{
	memcpy(buffer->data, &registers[(uint64_t)handle - 1], sizeof(*registers));
	buffer->len = sizeof(*registers);
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	return insn->pc;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_udata_cb_t callback,
					    enum qemu_plugin_cb_flags flags, void *userdata)
{
	(void)flags;
	insn->callback = callback;
	insn->userdata = userdata;
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_mem_cb_t callback,
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw, void *userdata)
{
	bool store = rw == QEMU_PLUGIN_MEM_W;

	(void)flags;
	insn->access[store] = callback;
	insn->access_data[store] = userdata;
}

unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info)
{
	return info & ~STORE;
}

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{
	return info & STORE;
}

#define NOT_CALLED(result, name, ...) \
	result name(__VA_ARGS__)      \
	{                             \
		abort();              \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"
NOT_CALLED(void, qemu_plugin_register_vcpu_tb_exec_cb, struct qemu_plugin_tb *tb, qemu_plugin_vcpu_udata_cb_t cb,
	   enum qemu_plugin_cb_flags flags, void *userdata)
NOT_CALLED(bool, qemu_plugin_read_memory_vaddr, uint64_t addr, GByteArray *data, size_t len)
NOT_CALLED(qemu_plugin_mem_value, qemu_plugin_mem_get_value, qemu_plugin_meminfo_t info)
NOT_CALLED(struct qemu_plugin_hwaddr *, qemu_plugin_get_hwaddr, qemu_plugin_meminfo_t info, uint64_t vaddr)
NOT_CALLED(bool, qemu_plugin_hwaddr_is_io, const struct qemu_plugin_hwaddr *haddr)
NOT_CALLED(uint64_t, qemu_plugin_hwaddr_phys_addr, const struct qemu_plugin_hwaddr *haddr)

/* The test */

static void start(void)
{
	guest_init("x86_64");
	guest.stack_bytes = 16384;
	guest_find_registers();
	cpus_init(NR_CPUS);
	for (unsigned int nr = 0; nr < NR_CPUS; nr++) {
		lines_init(&cpus.all[nr].lines, 1 << 20);
		cpus.all[nr].recording = 1;
	}
	for (unsigned int nr = 0; nr < NR_SITES; nr++) {
		fills[nr].pc = 0xffffffff81000000 + 16 * nr;
		accesses_watch(&fills[nr], INSN_FILL, (const uint8_t *)rep_stosb, sizeof(rep_stosb), 0);
		copies[nr].pc = fills[nr].pc + 8;
		accesses_watch(&copies[nr], INSN_STRING, (const uint8_t *)rep_movsb, sizeof(rep_movsb), 0);
		others[nr].pc = fills[nr].pc + 12;
		accesses_watch(&others[nr], INSN_OTHER, (const uint8_t[]){ 0x90 }, 1, 0);
	}
	accesses_watch_next(&next, (const uint8_t[]){ 0x90, 0x90, 0xf3, 0xaa }, 4);
}

static struct stack stacks_of[NR_CPUS][NR_STACKS];

static void run_on(unsigned int cpu, unsigned int stack, unsigned int level)
{
	current_cpu = &states[cpu];
	if (stack >= NR_STACKS)
		exit(1);
	cpus.all[cpu].contexts.stack = &stacks_of[cpu][stack];
	cpus.all[cpu].contexts.stack->base = (uint64_t)(stack + 1) << 20;
	cpus.all[cpu].contexts.stack->nesting = level;
}

static void copy(const struct qemu_plugin_insn *insn, uint64_t from, uint64_t bytes)
{
	for (uint64_t at = from; at < from + bytes; at++) {
		insn->access[0](0, 0, at, insn->access_data[0]);
		insn->access[1](0, STORE, at + COPIED, insn->access_data[1]);
	}
}

/* Of an instruction that is no string's, loads and stores are told apart by what QEMU says of each. */
static void access_once(const char *what, unsigned int site)
{
	bool store = !strcmp(what, "store") || !strcmp(what, "write");
	bool is_string = !strcmp(what, "load") || !strcmp(what, "store");
	const struct qemu_plugin_insn *insn = is_string ? &copies[site] : &others[site];

	insn->access[is_string && store](0, registers[1] | (store ? STORE : 0), registers[0],
					 insn->access_data[is_string && store]);
}

static void obey(const char *line)
{
	unsigned int cpu, stack, level, site;
	char what[8];

	if (sscanf(line, "%u %u %u %7s %u %lx %lu", &cpu, &stack, &level, what, &site, &registers[0],
		   &registers[1]) < 4)
		exit(1);
	run_on(cpu, stack, level);
	if (!strcmp(what, "begin"))
		fills[site].callback(0, fills[site].userdata);
	else if (!strcmp(what, "copy"))
		copy(&copies[site], registers[0], registers[1]);
	else if (!strcmp(what, "end"))
		next.callback(0, next.userdata);
	else
		access_once(what, site);
}

int main(int argc, char **argv)
{
	static struct arch arch;
	static const struct hash_type type = { sizeof(struct line_count), LINE_KEY_WORDS };
	const struct line_count *count;
	char line[256];

	start();
	arch = *guest.arch;
	if (argc > 1)
		arch.line_bytes = strtoul(argv[1], NULL, 10);
	guest.arch = &arch;
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	accesses_flush();
	accesses_free();
	for_each_cpu(cpu) {
		lines_expand(&cpu->lines);
		hash_for_each(count, &cpu->lines.counts, &type)
			printf("%ld %lx %lx %u %u\n", cpu - cpus.all, count->line & ~63ul, count->bytes, count->reads,
			       count->writes);
		hash_free(&cpu->lines.counts, &type);
	}
	return 0;
}
