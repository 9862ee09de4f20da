// SPDX-License-Identifier: GPL-2.0-or-later
#include "execution/control_flow.h"

#include <string.h>

#include "arch/guest.h"
#include "cpu/cpu.h"
#include "execution/lock_calls.h"
#include "execution/program.h"
#include "execution/stacks.h"
#include "lib/attributes.h"
#include "lib/xalloc.h"
#include "memory/accesses.h"
#include "memory/allocators.h"
#include "protocol/request.h"
#include "trace/trace_events.h"

#define NR_CALL_SITES 1024

static bool old_entries; /* whether interrupts and exceptions begin and end by ENTRY_OLD_* */

/* They live until code is thrown away. */
static struct call_sites {
	struct call_site sites[NR_CALL_SITES];
	unsigned int used;
	struct call_sites *next;
} *call_sites;

/* What lies at the top of a task's stack tells whether it was entered from user mode: also one not seen before. */
static void find_owner(struct stack *stack)
{
	const uint64_t *words;

	if (stack->user || !guest.arch->is_user_entry)
		return;
	words = guest_read_memory(stack->base + guest.stack_bytes - STACK_TOP_BYTES, STACK_TOP_BYTES);
	if (words)
		stack->user = guest.arch->is_user_entry(words);
}

/* The CPU changes to another stack. */
static void change_stack(struct cpu *cpu, uint64_t base, bool is_call)
{
	struct contexts_of_cpu *contexts = &cpu->contexts;
	struct stack *before = contexts->stack;
	chain_id chain = before->calls.chain;

	contexts->stack = stacks_find(cpu, base);
	/* A task was in user mode when recording began: only now its stack is known. */
	if (contexts->entering)
		contexts_move_entry(before, contexts->stack);
	contexts->stack->task |= contexts->switching;
	if (contexts->switching)
		find_owner(contexts->stack);
	/* A call to an interrupt's stack: its chain continues that of the interrupted stack. */
	if (is_call && !contexts->stack->task && !contexts->stack->user && !contexts->entering)
		chain_continue(&contexts->stack->calls, chain);
	contexts->switching = false;
}

/* The CPU called or returned with its stack pointer at `address`. */
static void on_stack_at(struct cpu *cpu, uint64_t address, bool is_call)
{
	struct contexts_of_cpu *contexts = &cpu->contexts;
	uint64_t inside = address - 1; /* an empty stack's address is where it ends */
	uint64_t base = stack_base(inside);

	if (base == contexts->stack->base && !contexts->entering && !contexts->switching)
		return;
	if (address >= guest.arch->no_stack_from && address < guest.arch->no_stack_to)
		return;
	/* The first call of a task that enters the kernel is made at the top of its stack. */
	if (!guest.stack_bytes) {
		if (!contexts->entering || !is_kernel_address(address) || !guest_find_stack_bytes(inside))
			return;
		base = stack_base(inside);
	}
	if (base != contexts->stack->base)
		change_stack(cpu, base, is_call);
	if (contexts->entering && contexts->entering_agent)
		contexts_set_agent_stack(base);
	if (contexts->entering)
		contexts->entering = contexts->entering_agent = false;
	contexts_update(contexts);
}

static void enter_user_mode(struct cpu *cpu)
{
	if (cpu->contexts.in_user)
		return;
	contexts_enter_user(&cpu->contexts);
	lock_calls_forget_task(cpu, cpu->contexts.stack);
	lock_calls_forget_cpu(cpu);
}

static void on_user_code(unsigned int nr UNUSED, void *userdata UNUSED)
{
	enter_user_mode(this_cpu());
}

/* The same of a program's. */
static void on_user_block(unsigned int nr UNUSED, void *nr_insns)
{
	struct cpu *cpu = this_cpu();

	enter_user_mode(cpu);
	if (is_recording(cpu))
		cpu->user_instructions += (uint64_t)nr_insns;
	program_execute(cpu, (uint64_t)nr_insns);
}

static void leave_user_mode(struct cpu *cpu)
{
	if (!cpu->contexts.in_user)
		return;
	cpu->contexts.in_user = false;
	cpu->contexts.entering = true;
	cpu->contexts.stack->user = true;
	if (request.what & RECORD_PROGRAM)
		accesses_next_operation(cpu);
}

/* The first thing that a task executes, on a stack that may have been another's. */
static void on_new_task(unsigned int nr UNUSED, void *pc UNUSED)
{
	struct cpu *cpu = this_cpu();

	lock_calls_forget_task(cpu, cpu->contexts.stack);
	contexts_begin_task(&cpu->contexts);
	find_owner(cpu->contexts.stack);
	contexts_update(&cpu->contexts);
}

static void on_system_call(unsigned int nr UNUSED, void *pc UNUSED)
{
	const uint64_t *number;
	uint64_t value;

	if (!is_recording(this_cpu()))
		return;
	value = guest_read_register(guest.registers.system_call);
	number = guest.arch->system_call_at ? guest_read_memory(value + guest.arch->system_call_at, sizeof(*number)) : &value;
	program_count_system_call(number ? *number : NO_SYSTEM_CALL);
}

static void on_other_system_call(unsigned int nr UNUSED, void *pc UNUSED)
{
	if (is_recording(this_cpu()))
		program_count_system_call(NO_SYSTEM_CALL);
}

/* At an ENTRY_OLD_* and its return, the stack pointer is on the task's stack. */
static void find_old_entry(struct cpu *cpu)
{
	uint64_t sp = guest_read_register(guest.registers.entry_stack);

	if (is_kernel_address(sp))
		on_stack_at(cpu, sp, false);
}

/* Before an entry: the interrupted stack may be new. Early in a system call, it is still the user's. */
static struct cpu *find_interrupted(void)
{
	struct cpu *cpu = this_cpu();

	if (guest.registers.stack && !cpu->contexts.in_user) {
		uint64_t sp = guest_stack_pointer();

		if (is_kernel_address(sp))
			on_stack_at(cpu, sp, false);
	}
	leave_user_mode(cpu);
	if (old_entries)
		find_old_entry(cpu);
	return cpu;
}

static struct cpu *on_entry(uint64_t pc, bool interrupt)
{
	struct cpu *cpu = find_interrupted();

	contexts_enter(&cpu->contexts, pc, guest_read_register(guest.registers.entry_stack), interrupt);
	return cpu;
}

static void on_exception(unsigned int nr UNUSED, void *pc)
{
	struct cpu *cpu = on_entry((uint64_t)pc, false);

	if (cpu->contexts.stack->trace)
		trace_events_exception(cpu);
}

static void on_interrupt(unsigned int nr UNUSED, void *pc)
{
	on_entry((uint64_t)pc, true);
}

static void on_user_interrupt(unsigned int nr UNUSED, void *pc)
{
	if (this_cpu()->contexts.in_user)
		on_entry((uint64_t)pc, true);
}

static void on_emergency_stack(unsigned int nr UNUSED, void *pc UNUSED)
{
	this_cpu()->contexts.emergency_stack = true;
}

static void on_deferred(unsigned int nr UNUSED, void *pc UNUSED)
{
	struct cpu *cpu = find_interrupted();

	if (!cpu->contexts.stack->deferred)
		cpu->contexts.stack->deferred = chain_sp(&cpu->contexts.stack->calls);
	contexts_update(&cpu->contexts);
}

static void on_switch(unsigned int nr UNUSED, void *pc UNUSED)
{
	find_interrupted()->contexts.switching = true;
}

static void on_switched(unsigned int nr UNUSED, void *pc UNUSED)
{
	struct cpu *cpu = this_cpu();
	struct stack *stack = cpu->contexts.stack;

	if (cpu->contexts.switching || stack->task || stack->user)
		return;
	/* It was taken for an interrupt's stack, whose chain continues that of the interrupted stack. */
	chain_reset(&stack->calls);
	stack->task = true;
	contexts_update(&cpu->contexts);
}

static void set_preempted(bool preempted)
{
	struct cpu *cpu = find_interrupted();

	cpu->contexts.stack->preempted = preempted;
	contexts_update(&cpu->contexts);
}

static void on_preempted(unsigned int nr UNUSED, void *pc UNUSED)
{
	set_preempted(true);
}

static void on_resumed(unsigned int nr UNUSED, void *pc UNUSED)
{
	set_preempted(false);
}

static void end_entry(struct cpu *cpu)
{
	if (cpu->contexts.stack->trace && !(cpu->contexts.stack->interrupts & 1))
		trace_events_exception_return(cpu);
	contexts_leave(&cpu->contexts);
}

static void on_interrupt_return(unsigned int nr UNUSED, void *userdata UNUSED)
{
	struct cpu *cpu = this_cpu();

	cpu->contexts.emergency_stack = false;
	if (old_entries)
		find_old_entry(cpu);
	if (guest.registers.saved_state) {
		uint64_t state = guest_read_register(guest.registers.saved_state);
		bool user = state_passes(state, guest.arch->user_state);

		/* The next interrupt may come before the first instruction of user code. */
		if (user)
			enter_user_mode(cpu);
		if (user || !state_passes(state, guest.arch->virtual_state))
			return;
	}
	if (cpu->contexts.stack->lost_nesting)
		cpu->contexts.stack->lost_nesting--;
	else if (contexts_ends_entry(cpu->contexts.stack, guest_read_register(guest.registers.entry_stack)))
		end_entry(cpu);
}

static void call(struct call_site *site, uint64_t sp)
{
	struct cpu *cpu = this_cpu();

	if (cpu->contexts.emergency_stack)
		return;
	leave_user_mode(cpu);
	on_stack_at(cpu, sp, true);
	chain_call(&cpu->contexts.stack->calls, site, sp);
}

static void on_call(unsigned int nr UNUSED, qemu_plugin_meminfo_t info UNUSED, uint64_t address, void *userdata)
{
	call(userdata, address);
}

static void on_call_insn(unsigned int nr UNUSED, void *userdata)
{
	call(userdata, guest_stack_pointer());
}

static void end_deferred(struct cpu *cpu, uint64_t sp)
{
	if (sp < cpu->contexts.stack->deferred)
		return;
	cpu->contexts.stack->deferred = 0;
	contexts_update(&cpu->contexts);
}

static void return_at(uint64_t sp)
{
	struct cpu *cpu = this_cpu();

	if (cpu->contexts.emergency_stack)
		return;
	leave_user_mode(cpu);
	on_stack_at(cpu, sp, false);
	/* First: the function that waits may be the last part of the one that acquires the lock. */
	if (cpu->contexts.stack->excluded_until_sp)
		trace_events_returned(cpu->contexts.stack, sp);
	if (cpu->contexts.stack->acquiring.nr)
		lock_calls_returned(cpu, sp);
	if (cpu->contexts.stack->deferred)
		end_deferred(cpu, sp);
	chain_return(&cpu->contexts.stack->calls, sp);
	if (cpu->contexts.stack->calls.nr_allocations)
		allocators_returned(cpu, sp);
}

static void on_return(unsigned int nr UNUSED, qemu_plugin_meminfo_t info UNUSED, uint64_t address,
		      void *userdata UNUSED)
{
	return_at(address);
}

static void on_return_insn(unsigned int nr UNUSED, void *userdata UNUSED)
{
	return_at(guest_stack_pointer());
}

static void on_conditional_return(unsigned int nr UNUSED, void *userdata)
{
	if (guest.arch->returns((uint64_t)userdata, guest_read_register(guest.registers.condition)))
		return_at(guest_stack_pointer());
}

void control_flow_arm(void)
{
	contexts_set_agent_stack(0);
	control_flow_begin();
}

void control_flow_begin(void)
{
	if (request.what & RECORD_PROGRAM)
		stacks_reset();
	for_each_cpu(cpu)
		contexts_reset(&cpu->contexts);
}

void control_flow_expect_agent(void)
{
	struct cpu *cpu = this_cpu();

	enter_user_mode(cpu);
	cpu->contexts.entering_agent = true;
}

void control_flow_watch_user(struct qemu_plugin_tb *tb, size_t nr_insns)
{
	if (request.what & RECORD_PROGRAM)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_user_block, QEMU_PLUGIN_CB_NO_REGS,
						     (void *)nr_insns);
	else
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_user_code, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

static bool is_of_programs(enum entry_kind kind)
{
	return kind == ENTRY_SYSTEM_CALL || kind == ENTRY_OTHER_SYSTEM_CALL;
}

void control_flow_watch_entry(struct qemu_plugin_insn *insn, enum entry_kind kind)
{
	static const qemu_plugin_vcpu_udata_cb_t callbacks[] = {
		[ENTRY_EXCEPTION] = on_exception,
		[ENTRY_INTERRUPT] = on_interrupt,
		[ENTRY_OLD_EXCEPTION] = on_exception,
		[ENTRY_OLD_INTERRUPT] = on_interrupt,
		[ENTRY_USER_INTERRUPT] = on_user_interrupt,
		[ENTRY_EMERGENCY_STACK] = on_emergency_stack,
		[ENTRY_DEFERRED] = on_deferred,
		[ENTRY_CONTEXT_SWITCH] = on_switch,
		[ENTRY_SWITCHED] = on_switched,
		[ENTRY_PREEMPTED] = on_preempted,
		[ENTRY_RESUMED] = on_resumed,
		[ENTRY_NEW_TASK] = on_new_task,
		[ENTRY_SYSTEM_CALL] = on_system_call,
		[ENTRY_OTHER_SYSTEM_CALL] = on_other_system_call,
		[NR_ENTRY_KINDS] = NULL,
	};

	if (is_of_programs(kind) && !(request.what & RECORD_PROGRAM))
		return;
	old_entries |= kind == ENTRY_OLD_EXCEPTION || kind == ENTRY_OLD_INTERRUPT;
	if (callbacks[kind])
		qemu_plugin_register_vcpu_insn_exec_cb(insn, callbacks[kind], QEMU_PLUGIN_CB_R_REGS,
						       (void *)qemu_plugin_insn_vaddr(insn));
}

static struct call_site *new_call_site(const struct qemu_plugin_insn *insn)
{
	struct call_site *site;

	if (!call_sites || call_sites->used == NR_CALL_SITES) {
		struct call_sites *more = xcalloc(1, sizeof(*more));

		more->next = call_sites;
		call_sites = more;
	}
	site = &call_sites->sites[call_sites->used++];
	site->pc = qemu_plugin_insn_vaddr(insn);
	return site;
}

/* Where the stack is, a call's own push and a return's own pop tell, or a register does. */
static void watch_call(struct qemu_plugin_insn *insn)
{
	struct call_site *site = new_call_site(insn);

	if (guest.registers.stack)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_call_insn, QEMU_PLUGIN_CB_R_REGS, site);
	else
		qemu_plugin_register_vcpu_mem_cb(insn, on_call, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, site);
}

static void watch_return(struct qemu_plugin_insn *insn)
{
	if (guest.registers.stack)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return_insn, QEMU_PLUGIN_CB_R_REGS, NULL);
	else
		qemu_plugin_register_vcpu_mem_cb(insn, on_return, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_MEM_R, NULL);
}

static void watch_conditional_return(struct qemu_plugin_insn *insn, const uint8_t *bytes)
{
	uint32_t code;

	memcpy(&code, bytes, sizeof(code));
	qemu_plugin_register_vcpu_insn_exec_cb(insn, on_conditional_return, QEMU_PLUGIN_CB_R_REGS,
					       (void *)(uint64_t)code);
}

void control_flow_watch(struct qemu_plugin_insn *insn, enum insn_kind kind, const uint8_t *bytes)
{
	switch (kind) {
	case INSN_CALL:
	case INSN_CALL_BY_MEMORY:
		watch_call(insn);
		break;
	case INSN_RETURN:
		watch_return(insn);
		break;
	case INSN_MAY_RETURN:
		watch_conditional_return(insn, bytes);
		break;
	case INSN_INTERRUPT_RETURN:
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_interrupt_return, QEMU_PLUGIN_CB_R_REGS, NULL);
		break;
	case INSN_USER_RETURN:
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_user_code, QEMU_PLUGIN_CB_NO_REGS, NULL);
		break;
	default:
		break;
	}
}

void control_flow_free(void)
{
	while (call_sites) {
		struct call_sites *next = call_sites->next;

		free(call_sites);
		call_sites = next;
	}
}
