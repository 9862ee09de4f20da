// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives what the recorder keeps of sampled operations, with a stand-in for QEMU: interrupts, waiting and a full
 * buffer come by chance otherwise. Its arguments: how many tasks there are, and how many operations of each. Standard
 * input, each on a CPU and a stack of the same number:
 *
 *	CPU operation TASK NUMBER	a task begins that operation, and has done the one before
 *	CPU done TASK			it has done its last
 *	CPU forget			its stack is given to another
 *	CPU user N, CPU kernel N	a block of so many instructions
 *	CPU context C			it runs on behalf of C from now on, by its number
 *	CPU access HOW INDEX N ADDRESS	an instruction with that index in a block of N: read, write, both, locked
 *	CPU call SP, CPU return SP	calls and returns
 *	CPU enter FUNCTION		the function that was called is one of the kernel's of that name
 *	CPU take LOCK, CPU give LOCK	a spinlock
 *	CPU fill ADDRESS BYTES		an instruction fills memory
 *	CPU zero ADDRESS		an instruction fills a line of memory, and never more
 *	CPU insn CODE			an instruction of arm64
 *	CPU copy N FROM TO		an instruction copies N words; if N is negative, downwards
 *	CPU exception, CPU iret		in the kernel
 *
 * Standard output: the trace, a line, and what is said of each task that has anything.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plugin/arch/guest.h"
#include "../plugin/counts/insns.h"
#include "../plugin/cpu/cpu.h"
#include "../plugin/trace/trace_events.h"
#include "byte_arrays.h"

#define NR_CPUS 2
#define WORD 3 /* log2 of its bytes */
#define STORE 16 /* in what QEMU says of an access */

struct qemu_plugin_insn {
	uint64_t pc;
	qemu_plugin_vcpu_udata_cb_t on_run;
	qemu_plugin_vcpu_mem_cb_t on_memory;
	void *run_data, *memory_data;
};

struct qemu_plugin_tb {
	qemu_plugin_vcpu_udata_cb_t on_run;
	void *data;
};

static char states[NR_CPUS];
static uint64_t first_argument;

/* QEMU and GLib */

__thread void *current_cpu;

void *qemu_get_cpu(int index)
{
	return &states[index];
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	return insn->pc;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_udata_cb_t callback,
					    enum qemu_plugin_cb_flags flags, void *userdata)
{
	(void)flags;
	insn->on_run = callback;
	insn->run_data = userdata;
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_mem_cb_t callback,
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw, void *userdata)
{
	(void)flags, (void)rw;
	insn->on_memory = callback;
	insn->memory_data = userdata;
}

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_vcpu_udata_cb_t callback,
					  enum qemu_plugin_cb_flags flags, void *userdata)
{
	(void)flags;
	tb->on_run = callback;
	tb->data = userdata;
}

unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info)
{
	return info & 15;
}

bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info)
{
	return info & STORE;
}

unsigned int g_array_get_element_size(GArray *array)
{
	(void)array;
	return sizeof(qemu_plugin_reg_descriptor);
}

GArray *qemu_plugin_get_registers(void)
{
	static GArray none;

	return &none;
}

void qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *buffer)
{
	(void)handle;
	memcpy(buffer->data, &first_argument, sizeof(first_argument));
	buffer->len = sizeof(first_argument);
}

/* The guest's memory is a mask of its CPUs. */
bool qemu_plugin_read_memory_vaddr(uint64_t address, GByteArray *data, size_t length)
{
	memcpy(data->data, &address, length);
	data->len = length;
	return true;
}

/* All memory is memory. */
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t address)
{
	(void)info, (void)address;
	return NULL;
}

bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *place)
{
	(void)place;
	abort();
}

/* The test */

static struct stack stacks_of[NR_CPUS];

static struct cpu *on(unsigned int nr)
{
	struct cpu *cpu = &cpus.all[nr];

	current_cpu = &states[nr];
	cpu->contexts.stack = &stacks_of[nr];
	cpu->contexts.stack->base = 0xffffc90000010000 + ((uint64_t)nr << 14);
	return cpu;
}

static void run_block(struct cpu *cpu, bool is_user, size_t nr_insns)
{
	struct qemu_plugin_tb tb;

	if (is_user) {
		trace_events_watch_user(&tb, nr_insns);
		tb.on_run(0, tb.data);
	} else {
		if (cpu->contexts.stack->trace)
			trace_events_execute(cpu, nr_insns);
	}
}

/* As accesses.c counts it. */
static void count(struct cpu *cpu, uint64_t address, bool store)
{
	const struct access access = { .insn = access_insn(1), .meminfo_or_part = store };
	const struct effect effect = { 1, !store, store };
	sequence_id sequence = 0;
	bool is_new;

	if (!sequence_go_on(&sequence, &access, &effect, &is_new))
		exit(1);
	lines_add(&cpu->lines, lines_key(address, cpu->contexts.context), sequence, 1);
}

static void count_word(struct cpu *cpu, uint64_t address, bool store)
{
	uint64_t last = address + (1 << WORD) - 1;

	count(cpu, address, store);
	if (lines_key(last, cpu->contexts.context) != lines_key(address, cpu->contexts.context))
		count(cpu, last, store);
}

static void touch(struct cpu *cpu, struct qemu_plugin_insn *insn, uint64_t address, bool store)
{
	insn->on_memory(0, WORD | (store ? STORE : 0), address, insn->memory_data);
	count_word(cpu, address, store);
}

/* As on_traced_access() of accesses.c tells of it. */
static void touch_at(struct cpu *cpu, uint32_t insn, uint32_t place, uint64_t address, bool store)
{
	if (cpu->contexts.stack->trace)
		trace_events_access(cpu, WORD | (store ? STORE : 0), address, insn, place);
	count_word(cpu, address, store);
}

static void touch_as(struct cpu *cpu, const char *how, size_t index, size_t nr_insns, uint64_t address)
{
	bool locked = !strcmp(how, "locked");
	const char *bytes = locked ? "\xf0\x48\xff\x07" : "\x48\xff\x07"; /* lock incq (%rdi) */
	uint32_t place = trace_events_place((const uint8_t *)bytes, locked ? 4 : 3, nr_insns - index);
	uint32_t insn = insns_number(0xffffffff81000000 + index);

	if (strcmp(how, "write"))
		touch_at(cpu, insn, place, address, false);
	if (strcmp(how, "read"))
		touch_at(cpu, insn, place, address, true);
}

static void copy_words(struct cpu *cpu, int nr, uint64_t from, uint64_t to)
{
	int step = nr < 0 ? -8 : 8;

	struct qemu_plugin_insn insn = { .pc = 0xffffffff81000100 };

	trace_events_watch_string(&insn, 0);
	for (int i = 0; i < abs(nr); i++) {
		touch(cpu, &insn, from + step * i, false);
		touch(cpu, &insn, to + step * i, true);
	}
}

static void enter_function(const char *name)
{
	struct qemu_plugin_insn insn = { .pc = 0xffffffff82000000 };

	trace_events_watch_entry(&insn, trace_function(name));
	if (insn.on_run)
		insn.on_run(0, insn.run_data);
}

static void execute(uint32_t code)
{
	struct qemu_plugin_insn insn = { .pc = 0xffffffff82000010 };

	guest.arch = &arch_aarch64;
	trace_events_watch_broadcast(&insn, (const uint8_t *)&code, sizeof(code), 0);
	guest.arch = &arch_x86_64;
	if (insn.on_run)
		insn.on_run(0, insn.run_data);
}

static void lock(struct cpu *cpu, bool take, uint64_t address)
{
	const struct held_lock held = { .lock = address, .by = lock_function("_raw_spin_lock") };

	count(cpu, address, true);
	if (!cpu->contexts.stack->trace)
		return;
	if (take)
		trace_events_lock_acquired(cpu, &held);
	else
		trace_events_lock_released(cpu, address, held.by, 0);
}

static void obey(const char *line)
{
	unsigned int nr;
	char what[16], name[64];
	static struct call_site call_site = { .pc = 0xffffffff81000200 };
	uint64_t a = 0, b = 0, c = 0;
	struct cpu *cpu;
	int words;

	if (sscanf(line, "%u %15s", &nr, what) != 2)
		exit(1);
	cpu = on(nr);
	if (sscanf(line, "%u operation %lu %lu", &nr, &a, &b) == 3)
		trace_events_next(cpu, a, b);
	else if (sscanf(line, "%u done %lu", &nr, &a) == 2)
		trace_events_last(cpu, a);
	else if (!strcmp(what, "forget"))
		cpu->contexts.stack->trace = NULL;
	else if (sscanf(line, "%u user %lu", &nr, &a) == 2)
		run_block(cpu, true, a);
	else if (sscanf(line, "%u kernel %lu", &nr, &a) == 2)
		run_block(cpu, false, a);
	else if (sscanf(line, "%u context %lu", &nr, &a) == 2)
		cpu->contexts.context = a;
	else if (sscanf(line, "%u access %63s %lu %lu %lx", &nr, name, &a, &b, &c) == 5)
		touch_as(cpu, name, a, b, c);
	else if (sscanf(line, "%u call %lx", &nr, &a) == 2)
		chain_call(&cpu->contexts.stack->calls, &call_site, a);
	else if (sscanf(line, "%u return %lx", &nr, &a) == 2) {
		trace_events_returned(cpu->contexts.stack, a);
		chain_return(&cpu->contexts.stack->calls, a);
	} else if (sscanf(line, "%u enter %63s %lx", &nr, name, &first_argument) >= 2)
		enter_function(name);
	else if (sscanf(line, "%u take %lx", &nr, &a) == 2)
		lock(cpu, true, a);
	else if (sscanf(line, "%u give %lx", &nr, &a) == 2)
		lock(cpu, false, a);
	else if (sscanf(line, "%u fill %lx %lu", &nr, &a, &b) == 3)
		trace_events_fill(cpu, insns_number(0xffffffff81000300), a, b, false);
	else if (sscanf(line, "%u zero %lx", &nr, &a) == 2)
		trace_events_fill(cpu, insns_number(0xffffffff81000310), a, 64, true);
	else if (sscanf(line, "%u insn %lx", &nr, &a) == 2)
		execute(a);
	else if (sscanf(line, "%u copy %d %lx %lx", &nr, &words, &b, &c) == 4)
		copy_words(cpu, words, b, c);
	else if (!strcmp(what, "exception"))
		trace_events_exception(cpu);
	else if (!strcmp(what, "iret"))
		trace_events_exception_return(cpu);
	else
		exit(1);
}

int main(int argc, char **argv)
{
	struct line_table *tables[NR_CPUS];
	char line[256];

	guest_init("x86_64");
	guest.stack_bytes = 16384;
	guest_find_registers();
	cpus_init(NR_CPUS);
	for (unsigned int nr = 0; nr < NR_CPUS; nr++) {
		tables[nr] = &cpus.all[nr].lines;
		lines_init(tables[nr], 1 << 20);
	}
	if (argc != 3)
		return 1;
	traces_arm(strtoul(argv[1], NULL, 10), strtoul(argv[2], NULL, 10));
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	for (unsigned int nr = 0; nr < NR_CPUS; nr++)
		lines_flush(tables[nr]);
	if (traces_write(stdout, tables, NR_CPUS, 64))
		return 1;
	puts("");
	traces_write_summary(stdout);
	for (unsigned int nr = 0; nr < NR_CPUS; nr++)
		lines_init(tables[nr], 0);
	traces_arm(0, 0);
	free(cpus.all);
	return 0;
}
