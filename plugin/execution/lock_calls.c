// SPDX-License-Identifier: GPL-2.0-or-later
#include "execution/lock_calls.h"

#include "arch/guest.h"
#include "lib/attributes.h"
#include "trace/trace_events.h"

static struct lock_owner *owner(struct cpu *cpu, const struct lock_function *function)
{
	return function->sleeps ? &cpu->contexts.stack->locks : &cpu->locks.owner;
}

static void release(struct cpu *cpu, struct lock_owner *owner, uint64_t lock, uint64_t early)
{
	const struct lock_function *by = locks_release(&cpu->locks.table, owner, lock, early);

	if (by && cpu->contexts.stack->trace)
		trace_events_lock_released(cpu, lock, by, early);
}

static void on_lock_function(unsigned int nr UNUSED, void *userdata)
{
	const struct lock_function *function = userdata;
	struct cpu *cpu = this_cpu();
	struct call_stack *calls = &cpu->contexts.stack->calls;
	struct held_lock lock = { .by = function, .chain = calls->chain, .context = cpu->contexts.context };

	if (function->action == LOCK_RELEASE) {
		if (owner(cpu, function)->held.nr)
			release(cpu, owner(cpu, function), guest_read_register(guest.registers.first_argument), 0);
		return;
	}
	lock.sp = chain_sp(calls);
	if (!is_recording(cpu) || !lock.sp)
		return;
	lock.lock = guest_read_register(guest.registers.first_argument);
	locks_begin(&cpu->locks.table, &cpu->contexts.stack->acquiring, &lock);
}

/* A function that releases a lock is no call where the compiler or the kernel has put its one store in place of it. */
static void on_unlocking_store(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	struct cpu *cpu = this_cpu();

	if (cpu->locks.owner.held.nr && qemu_plugin_mem_is_store(info))
		release(cpu, &cpu->locks.owner, address, (uint64_t)userdata);
}

void lock_calls_watch_entry(struct qemu_plugin_insn *insn, const struct lock_function *function)
{
	qemu_plugin_register_vcpu_insn_exec_cb(insn, on_lock_function, QEMU_PLUGIN_CB_R_REGS, (void *)function);
}

void lock_calls_watch(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size, size_t early)
{
	/* What is left of the block has not been executed when the lock is free. */
	if (guest.arch->may_unlock && guest.arch->may_unlock(bytes, size))
		qemu_plugin_register_vcpu_mem_cb(insn, on_unlocking_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
						 (void *)early);
}

NOINLINE void lock_calls_returned(struct cpu *cpu, uint64_t sp)
{
	struct held_lock lock;

	if (!locks_end(&cpu->contexts.stack->acquiring, sp, &lock) ||
	    !locks_taken(lock.by, guest_read_register(guest.registers.result)))
		return;
	locks_hold(&cpu->locks.table, owner(cpu, lock.by), lock);
	if (cpu->contexts.stack->trace)
		trace_events_lock_acquired(cpu, &lock);
}

void lock_calls_forget_task(struct cpu *cpu, struct stack *stack)
{
	stack->acquiring.nr = 0;
	locks_forget(&cpu->locks.table, &stack->locks);
}

void lock_calls_forget_cpu(struct cpu *cpu)
{
	locks_forget(&cpu->locks.table, &cpu->locks.owner);
}
