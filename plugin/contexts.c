// SPDX-License-Identifier: GPL-2.0-or-later
#include "contexts.h"

#include <string.h>

#include "allocators.h"
#include "cpu.h"
#include "guest.h"
#include "hash.h"
#include "lock_calls.h"
#include "trace_events.h"
#include "xalloc.h"

#define NO_STACK (~0ull)
#define MAX_PROBES 8
#define NR_CALL_SITES 1024

static uint64_t agent_stack = NO_STACK;
static bool old_entries; /* whether interrupts and exceptions begin and end by ENTRY_OLD_* */

/* They live until code is thrown away. */
static struct call_sites {
	struct call_site sites[NR_CALL_SITES];
	unsigned int used;
	struct call_sites *next;
} *call_sites;

/* The stacks of all CPUs by their bases, for who asks after many addresses; not whole once there is another one. */
static struct {
	struct hash_table table;
	bool whole;
} all_stacks = { .table = { .max_bytes = UINT64_MAX } }; /* there are at most NR_STACKS a CPU */

static const struct hash_type base_type = { sizeof(uint64_t), 1 };

static enum context context_of(const struct stack *stack)
{
	if (stack->interrupts || stack->preempted || stack->deferred)
		return CONTEXT_INTERRUPT;
	if (stack->base == agent_stack)
		return CONTEXT_HARNESS;
	if (stack->user)
		return CONTEXT_OPERATION;
	/* A stack that no task was seen to own is an interrupt's. */
	return stack->task ? CONTEXT_KTHREAD : CONTEXT_INTERRUPT;
}

/* Where the stack is noted, or is to be: one of another stack is evicted where MAX_PROBES in a row are used. */
static struct stack *stack_place(struct cpu *cpu, uint64_t base)
{
	uint64_t at = base / guest.stack_bytes * 0x9e3779b97f4a7c15 >> 32;
	struct stack *place = NULL;

	for (unsigned int probes = 0; probes < MAX_PROBES; probes++) {
		place = &cpu->stacks[(at + probes) % NR_STACKS];
		if (place->base == base || !place->base)
			break;
	}
	return place;
}

static struct stack *find_stack(struct cpu *cpu, uint64_t base)
{
	struct stack *stack = stack_place(cpu, base);

	if (stack->base == base)
		return stack;
	/* An evicted task is learnt again when it next enters the kernel. */
	if (stack->base) {
		cpu->evicted_stacks++;
		lock_calls_forget_task(cpu, stack);
	}
	memset(stack, 0, offsetof(struct stack, calls));
	stack->base = base;
	all_stacks.whole = false;
	chain_reset(&stack->calls);
	return stack;
}

/* Which stack a task has that was in user mode when recording began is known only now. */
static void move_entry(struct stack *from, struct stack *to)
{
	to->user = true;
	to->interrupts = from->interrupts;
	to->nesting = from->nesting;
	memcpy(to->entry_sp, from->entry_sp, sizeof(to->entry_sp));
	to->lost_nesting = from->lost_nesting;
	to->preempted = false;
	to->deferred = 0;
	to->trace = from->trace;
	to->waiting = 0;
	from->trace = NULL;
	to->calls = from->calls;
	fill_ended(&to->fills[to->nesting]);
	from->interrupts = from->nesting = from->lost_nesting = 0;
	chain_reset(&from->calls);
}

/* The CPU called or returned with its stack pointer at `address`. */
static void on_stack_at(struct cpu *cpu, uint64_t address, bool is_call)
{
	uint64_t base = stack_base(address);
	bool entering = cpu->entering;

	if (base == cpu->stack->base && !entering && !cpu->switching)
		return;
	if (address >= guest.arch->no_stack_from && address < guest.arch->no_stack_to)
		return;
	/* The first call of a task that enters the kernel is made at the top of its stack. */
	if (!guest.stack_bytes) {
		if (!entering || !is_kernel_address(address) || !guest_find_stack_bytes(address))
			return;
		base = stack_base(address);
	}
	if (base != cpu->stack->base) {
		struct stack *before = cpu->stack;
		chain_id chain = before->calls.chain;

		cpu->stack = find_stack(cpu, base);
		if (entering)
			move_entry(before, cpu->stack);
		cpu->stack->task |= cpu->switching;
		/* Down to an interrupt's stack: its chain goes on from where the CPU was. */
		if (is_call && !cpu->stack->task && !cpu->stack->user && !entering)
			chain_continue(&cpu->stack->calls, chain);
		cpu->switching = false;
	}
	if (entering) {
		if (cpu->entering_agent)
			agent_stack = base;
		cpu->entering = cpu->entering_agent = false;
	}
	cpu->context = context_of(cpu->stack);
}

/* The stack is the one from which the task returned to user mode: nothing is on it. */
static void enter_user_mode(struct cpu *cpu)
{
	struct stack *stack = cpu->stack;

	if (cpu->in_user)
		return;
	cpu->in_user = true;
	stack->interrupts = stack->nesting = stack->lost_nesting = 0;
	stack->preempted = false;
	stack->deferred = stack->waiting = 0;
	chain_reset(&stack->calls);
	fill_ended(&stack->fills[0]);
	lock_calls_forget_task(cpu, stack);
	lock_calls_forget_cpu(cpu);
	cpu->context = stack->base == agent_stack ? CONTEXT_HARNESS : CONTEXT_OPERATION;
}

static void on_user_code(unsigned int nr UNUSED, void *userdata UNUSED)
{
	enter_user_mode(this_cpu());
}

static void leave_user_mode(struct cpu *cpu)
{
	if (!cpu->in_user)
		return;
	cpu->in_user = false;
	cpu->entering = true;
	cpu->stack->user = true;
}

static void enter(struct cpu *cpu, uint64_t pc, uint64_t sp, bool interrupt)
{
	struct stack *stack = cpu->stack;

	if (stack->nesting == MAX_NESTING) {
		cpu->lost_entries++;
		stack->lost_nesting++;
		return;
	}
	chain_enter(&stack->calls, pc, interrupt);
	stack->interrupts = stack->interrupts << 1 | interrupt;
	stack->entry_sp[stack->nesting] = sp;
	fill_ended(&stack->fills[++stack->nesting]);
}

/* What the CPU pushed at an ENTRY_OLD_*, and pops as it returns, is on the stack of the task. */
static void find_old_entry(struct cpu *cpu)
{
	uint64_t sp = guest_read_register(guest.registers.entry_stack);

	if (is_kernel_address(sp))
		on_stack_at(cpu, sp, false);
}

/* Before an entry: the stack that is interrupted may be new; early in a system call it is still the user's. */
static struct cpu *find_interrupted(void)
{
	struct cpu *cpu = this_cpu();

	if (guest.registers.stack && !cpu->in_user) {
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

	enter(cpu, pc, guest_read_register(guest.registers.entry_stack), interrupt);
	cpu->context = context_of(cpu->stack);
	return cpu;
}

static void on_exception(unsigned int nr UNUSED, void *pc)
{
	struct cpu *cpu = on_entry((uint64_t)pc, false);

	if (cpu->stack->trace)
		trace_events_exception(cpu);
}

static void on_interrupt(unsigned int nr UNUSED, void *pc)
{
	on_entry((uint64_t)pc, true);
}

static void on_emergency_stack(unsigned int nr UNUSED, void *pc UNUSED)
{
	this_cpu()->emergency_stack = true;
}

static void on_deferred(unsigned int nr UNUSED, void *pc UNUSED)
{
	struct cpu *cpu = find_interrupted();

	if (!cpu->stack->deferred)
		cpu->stack->deferred = chain_sp(&cpu->stack->calls);
	cpu->context = context_of(cpu->stack);
}

static void on_switch(unsigned int nr UNUSED, void *pc UNUSED)
{
	find_interrupted()->switching = true;
}

static void on_switched(unsigned int nr UNUSED, void *pc UNUSED)
{
	struct cpu *cpu = this_cpu();
	struct stack *stack = cpu->stack;

	if (cpu->switching || stack->task || stack->user)
		return;
	/* It was taken for an interrupt's, which goes on from where the CPU was. */
	chain_reset(&stack->calls);
	stack->task = true;
	cpu->context = context_of(stack);
}

static void set_preempted(bool preempted)
{
	struct cpu *cpu = find_interrupted();

	cpu->stack->preempted = preempted;
	cpu->context = context_of(cpu->stack);
}

static void on_preempted(unsigned int nr UNUSED, void *pc UNUSED)
{
	set_preempted(true);
}

static void on_resumed(unsigned int nr UNUSED, void *pc UNUSED)
{
	set_preempted(false);
}

/*
 * Whether a return with the stack pointer there ends the last entry. Not every one does: in a handler, sync_core()
 * returns to itself, and an NMI, which is not followed, returns on a stack of its own. What entered from user mode
 * returns from where it entered, or from the top of the task's stack.
 */
static bool ends_entry(const struct stack *stack, uint64_t sp)
{
	uint64_t moves = guest.arch->entry_moves, top = stack->base + guest.stack_bytes;

	if (!stack->nesting)
		return false;
	return sp - stack->entry_sp[stack->nesting - 1] + moves <= 2 * moves || top - sp <= moves;
}

static void end_entry(struct cpu *cpu)
{
	struct stack *stack = cpu->stack;

	if (stack->trace && !(stack->interrupts & 1))
		trace_events_exception_return(cpu);
	chain_leave(&stack->calls);
	stack->nesting--;
	stack->interrupts >>= 1;
	cpu->context = context_of(stack);
}

static void on_interrupt_return(unsigned int nr UNUSED, void *userdata UNUSED)
{
	struct cpu *cpu = this_cpu();

	cpu->emergency_stack = false;
	if (old_entries)
		find_old_entry(cpu);
	if (guest.registers.saved_state) {
		uint64_t state = guest_read_register(guest.registers.saved_state);

		/* The next interrupt may come before the first instruction of user code. */
		if (state & guest.arch->user_state)
			enter_user_mode(cpu);
		if (state & guest.arch->user_state || !(state & guest.arch->virtual_state))
			return;
	}
	if (cpu->stack->lost_nesting)
		cpu->stack->lost_nesting--;
	else if (ends_entry(cpu->stack, guest_read_register(guest.registers.entry_stack)))
		end_entry(cpu);
}

static void call(struct call_site *site, uint64_t sp)
{
	struct cpu *cpu = this_cpu();

	if (cpu->emergency_stack)
		return;
	leave_user_mode(cpu);
	on_stack_at(cpu, sp, true);
	chain_call(&cpu->stack->calls, site, sp);
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
	if (sp < cpu->stack->deferred)
		return;
	cpu->stack->deferred = 0;
	cpu->context = context_of(cpu->stack);
}

static void return_at(uint64_t sp)
{
	struct cpu *cpu = this_cpu();

	if (cpu->emergency_stack)
		return;
	leave_user_mode(cpu);
	on_stack_at(cpu, sp, false);
	/* First: what waits may be the end of what takes the lock. */
	if (cpu->stack->waiting)
		trace_events_returned(cpu->stack, sp);
	if (cpu->stack->acquiring.nr)
		lock_calls_returned(cpu, sp);
	if (cpu->stack->deferred)
		end_deferred(cpu, sp);
	chain_return(&cpu->stack->calls, sp);
	if (cpu->stack->calls.nr_allocations)
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

void contexts_arm(void)
{
	agent_stack = NO_STACK;
	for_each_cpu(cpu)
		cpu->stack = memset(&cpu->unknown, 0, sizeof(cpu->unknown));
}

void contexts_expect_agent(void)
{
	struct cpu *cpu = this_cpu();

	enter_user_mode(cpu);
	cpu->entering_agent = true;
}

void contexts_watch_user(struct qemu_plugin_tb *tb)
{
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_user_code, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

void contexts_watch_entry(struct qemu_plugin_insn *insn, enum entry_kind kind)
{
	static const qemu_plugin_vcpu_udata_cb_t callbacks[] = {
		[ENTRY_EXCEPTION] = on_exception,
		[ENTRY_INTERRUPT] = on_interrupt,
		[ENTRY_OLD_EXCEPTION] = on_exception,
		[ENTRY_OLD_INTERRUPT] = on_interrupt,
		[ENTRY_EMERGENCY_STACK] = on_emergency_stack,
		[ENTRY_DEFERRED] = on_deferred,
		[ENTRY_CONTEXT_SWITCH] = on_switch,
		[ENTRY_SWITCHED] = on_switched,
		[ENTRY_PREEMPTED] = on_preempted,
		[ENTRY_RESUMED] = on_resumed,
		[NR_ENTRY_KINDS] = NULL,
	};

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

void contexts_watch(struct qemu_plugin_insn *insn, enum insn_kind kind, const uint8_t *bytes)
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

static void find_all_stacks(void)
{
	hash_clear(&all_stacks.table, &base_type);
	for_each_cpu(cpu)
		for (unsigned int i = 0; i < NR_STACKS; i++)
			if (cpu->stacks[i].base)
				hash_add(&all_stacks.table, &base_type, &cpu->stacks[i].base, 1);
	all_stacks.whole = true;
}

bool contexts_is_stack(uint64_t address)
{
	uint64_t base = stack_base(address);

	if (!all_stacks.whole)
		find_all_stacks();
	return hash_find(&all_stacks.table, &base_type, &base);
}

struct contexts_lost contexts_lost(void)
{
	struct contexts_lost lost = { 0 };

	for_each_cpu(cpu) {
		lost.stacks += cpu->evicted_stacks;
		lost.entries += cpu->lost_entries;
	}
	return lost;
}

void contexts_free(void)
{
	while (call_sites) {
		struct call_sites *next = call_sites->next;

		free(call_sites);
		call_sites = next;
	}
}
