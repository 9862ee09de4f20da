// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives what the recorder knows of a CPU's context, with a stand-in for QEMU: which of a machine's interrupts is the
 * first that a task sees after recording begins is up to chance. Its argument: how large stacks are. Standard input, of
 * one CPU:
 *
 *	user			code of user mode runs
 *	interrupt [SP], exception [SP]	enters the kernel, with the stack pointer there
 *	old SP			an interrupt of a kernel before 5.8, with the stack pointer there
 *	end SP			it returns, likewise
 *	call SP, return SP	a call pushes its return address there, a return pops it
 *	iret [SP]		a return from an interrupt or exception, likewise
 *	switch			another task's stack is next
 *	switched		the stack is the next task's already
 *	cpu NUMBER		from now on, it is this CPU that does so
 *	program			what is recorded is a program, of which a part begins
 *	owner WHAT		what lies at the top of all stacks: user, or kernel
 *	deferred		a function that does deferred work begins: it was called last
 *	fork			the first code of a new task
 *
 * Standard output: the CPU's context after each.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plugin/arch/guest.h"
#include "../plugin/cpu/cpu.h"
#include "../plugin/execution/control_flow.h"
#include "../plugin/execution/lock_calls.h"
#include "../plugin/execution/program.h"
#include "../plugin/memory/accesses.h"
#include "../plugin/memory/allocators.h"
#include "../plugin/protocol/request.h"
#include "../plugin/trace/trace_events.h"

struct qemu_plugin_insn {
	qemu_plugin_vcpu_udata_cb_t on_run;
	qemu_plugin_vcpu_mem_cb_t on_memory;
	void *of_memory; /* its userdata */
};

struct qemu_plugin_tb {
	qemu_plugin_vcpu_udata_cb_t on_run;
};

static struct qemu_plugin_tb user;
static struct qemu_plugin_insn interrupt, exception, call, ret, iret, change, changed, old, forked, deferred;
static char states[2];
static bool user_below; /* what lies at the top of the stacks: whether their tasks came from user mode */
static uint64_t stack_pointer, stack_bytes;

struct time_slice time_slice;

/* QEMU */

__thread void *current_cpu;

void *qemu_get_cpu(int index)
{
	return &states[index];
}

uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn)
{
	(void)insn;
	return 0xffffffff81000000;
}

void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_udata_cb_t callback,
					    enum qemu_plugin_cb_flags flags, void *userdata)
{
	(void)flags, (void)userdata;
	insn->on_run = callback;
}

void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, qemu_plugin_vcpu_mem_cb_t callback,
				      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw rw, void *userdata)
{
	(void)flags, (void)rw;
	insn->on_memory = callback;
	insn->of_memory = userdata;
}

void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, qemu_plugin_vcpu_udata_cb_t callback,
					  enum qemu_plugin_cb_flags flags, void *userdata)
{
	(void)flags, (void)userdata;
	tb->on_run = callback;
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

GByteArray *g_byte_array_new(void)
{
	static GByteArray none;

	return &none;
}

GByteArray *g_byte_array_set_size(GByteArray *array, unsigned int length)
{
	(void)length;
	return array;
}

void qemu_plugin_read_register(struct qemu_plugin_register *handle, GByteArray *buffer)
{
	(void)handle;
	buffer->data = (uint8_t *)&stack_pointer;
	buffer->len = sizeof(stack_pointer);
}

bool qemu_plugin_read_memory_vaddr(uint64_t address, GByteArray *data, size_t length)
{
	static uint64_t words[STACK_TOP_BYTES / 8];

	/* At a stack's end, what the kernel writes there behind its struct thread_info. */
	words[13] = address % stack_bytes ? 0 : 0x57ac6e9d;
	words[STACK_TOP_BYTES / 8 - 4] = user_below ? 0x33 : 0;
	words[STACK_TOP_BYTES / 8 - 1] = user_below ? 0x2b : 0;
	data->data = (uint8_t *)words;
	data->len = length;
	return true;
}

/* Here is neither a lock nor an allocation, and nothing is traced. */

void lock_calls_forget_task(struct cpu *cpu, struct stack *stack)
{
	(void)cpu, (void)stack;
}

void accesses_next_operation(struct cpu *cpu)
{
	(void)cpu;
}

void lock_calls_forget_cpu(struct cpu *cpu)
{
	(void)cpu;
}

#define NOT_CALLED(result, name, ...) \
	result name(__VA_ARGS__)      \
	{                             \
		abort();              \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"
NOT_CALLED(void, program_count_system_call, uint64_t number)
NOT_CALLED(void, program_next_window, void)
NOT_CALLED(void, time_slices_begin, void)
NOT_CALLED(void, time_slices_end, void)
NOT_CALLED(void, lock_calls_returned, struct cpu *cpu, uint64_t sp)
NOT_CALLED(void, trace_events_exception, struct cpu *cpu)
NOT_CALLED(void, trace_events_exception_return, struct cpu *cpu)
NOT_CALLED(void, trace_events_returned, struct stack *stack, uint64_t sp)
NOT_CALLED(void, allocators_returned, struct cpu *cpu, uint64_t sp)

/* The test */

static void start(void)
{
	guest_init("x86_64");
	cpus_init(2);
	current_cpu = states;
	control_flow_watch_user(&user, 1);
	control_flow_watch_entry(&interrupt, ENTRY_INTERRUPT);
	control_flow_watch_entry(&exception, ENTRY_EXCEPTION);
	control_flow_watch_entry(&change, ENTRY_CONTEXT_SWITCH);
	control_flow_watch_entry(&changed, ENTRY_SWITCHED);
	control_flow_watch_entry(&old, ENTRY_OLD_INTERRUPT);
	control_flow_watch_entry(&forked, ENTRY_NEW_TASK);
	control_flow_watch_entry(&deferred, ENTRY_DEFERRED);
	control_flow_watch(&call, INSN_CALL, NULL);
	control_flow_watch(&ret, INSN_RETURN, NULL);
	control_flow_watch(&iret, INSN_INTERRUPT_RETURN, NULL);
	control_flow_arm();
}

static void begin_program(void)
{
	request.what = RECORD_PROGRAM;
	for_each_cpu(cpu)
		cpu->window_left = INT64_MAX;
	control_flow_watch_user(&user, 1);
	control_flow_begin();
}

static bool is_command(const char *line, const char *command)
{
	char word[16];
	uint64_t sp = stack_pointer;
	bool is_it = sscanf(line, "%15s %lx", word, &sp) >= 1 && !strcmp(word, command);

	if (is_it)
		stack_pointer = sp;
	return is_it;
}

static void obey(const char *line)
{
	uint64_t sp;

	unsigned int nr;

	if (!strcmp(line, "user\n"))
		user.on_run(0, NULL);
	else if (sscanf(line, "cpu %u", &nr) == 1)
		current_cpu = &states[nr % 2];
	else if (!strcmp(line, "program\n"))
		begin_program();
	else if (!strncmp(line, "owner ", 6))
		user_below = !strcmp(line + 6, "user\n");
	else if (!strcmp(line, "fork\n"))
		forked.on_run(0, NULL);
	else if (!strcmp(line, "deferred\n"))
		deferred.on_run(0, NULL);
	else if (is_command(line, "interrupt"))
		interrupt.on_run(0, NULL);
	else if (is_command(line, "exception"))
		exception.on_run(0, NULL);
	else if (!strcmp(line, "switch\n"))
		change.on_run(0, NULL);
	else if (!strcmp(line, "switched\n"))
		changed.on_run(0, NULL);
	else if (is_command(line, "iret"))
		iret.on_run(0, NULL);
	else if (sscanf(line, "old %lx", &stack_pointer) == 1)
		old.on_run(0, NULL);
	else if (sscanf(line, "end %lx", &stack_pointer) == 1)
		iret.on_run(0, NULL);
	else if (sscanf(line, "call %lx", &sp) == 1)
		call.on_memory(0, 0, sp, call.of_memory);
	else if (sscanf(line, "return %lx", &sp) == 1)
		ret.on_memory(0, 0, sp, NULL);
	else
		exit(1);
}

int main(int argc, char **argv)
{
	char line[256];

	if (argc != 2)
		return 1;
	stack_bytes = strtoul(argv[1], NULL, 10);
	start();
	while (fgets(line, sizeof(line), stdin)) {
		obey(line);
		puts(context_name(this_cpu()->contexts.context));
	}
	free(cpus.all);
	return 0;
}
