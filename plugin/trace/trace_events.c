// SPDX-License-Identifier: GPL-2.0-or-later
#include "trace/trace_events.h"

#include <string.h>

#include "arch/guest.h"
#include "counts/insns.h"
#include "lib/attributes.h"
#include "lib/names.h"
#include "protocol/request.h"

#define SMALL_FILL 4096 /* a larger fill is of new memory, which no other CPU knows yet */
#define MAX_MASK_BYTES 1024

/* kernel/locking/, kernel/sched/core.c, kernel/smp.c; compilers add to the names of their copies. */
enum trace_function trace_function(const char *symbol)
{
	static const struct {
		const char *name;
		enum trace_function function;
	} functions[] = {
		{ "native_queued_spin_lock_slowpath", TRACE_WAITS },
		{ "queued_spin_lock_slowpath", TRACE_WAITS },
		{ "__pv_queued_spin_lock_slowpath", TRACE_WAITS },
		{ "queued_read_lock_slowpath", TRACE_WAITS },
		{ "queued_write_lock_slowpath", TRACE_WAITS },
		{ "rwsem_down_read_slowpath", TRACE_WAITS },
		{ "rwsem_down_write_slowpath", TRACE_WAITS },
		{ "rwsem_optimistic_spin", TRACE_WAITS },
		{ "rwsem_wake", TRACE_WAITS },
		{ "downgrade_write", TRACE_DOWNGRADES },
		{ "__mutex_lock", TRACE_WAITS },
		{ "__mutex_lock_slowpath", TRACE_WAITS },
		{ "__mutex_lock_killable_slowpath", TRACE_WAITS },
		{ "__mutex_lock_interruptible_slowpath", TRACE_WAITS },
		{ "__mutex_unlock_slowpath", TRACE_WAITS },
		{ "schedule", TRACE_SLEEPS },
		{ "do_sched_yield", TRACE_YIELDS },
		{ "try_to_wake_up", TRACE_WAKES },
		{ "smp_call_function_many_cond", TRACE_INTERRUPTS },
	};
	size_t length = strcspn(symbol, ".");

	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
		if (is_name(symbol, length, functions[i].name))
			return strstr(symbol, ".cold") ? TRACE_NOTHING : functions[i].function;
	return TRACE_NOTHING;
}

/* The trace of what the CPU does now; NULL if that is not an operation's, not sampled, or excluded as waiting. */
static inline struct trace *traced(const struct cpu *cpu)
{
	const struct stack *stack = cpu->contexts.stack;

	if (!stack->trace || !stack->trace->tracing || stack->excluded_until_sp)
		return NULL;
	return cpu->contexts.context == CONTEXT_OPERATION ? stack->trace : NULL;
}

/* Leave out what the CPU does until the function that runs returns. */
static void exclude(struct cpu *cpu)
{
	cpu->contexts.stack->excluded_until_sp = chain_sp(&cpu->contexts.stack->calls);
}

/* Where an access comes from, in a callback's userdata: keeping a struct for each would take too much memory. */
union place {
	void *userdata;
	struct {
		uint32_t insn;
		uint16_t early; /* instructions of its block from there on */
		uint16_t atomic;
	};
};

_Static_assert(sizeof(union place) == sizeof(void *), "a place is passed as a pointer");

static uint64_t line_of(uint64_t address)
{
	return address & ~(uint64_t)(guest.arch->line_bytes - 1);
}

static bool is_recorded(const struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t address)
{
	return is_kernel_address(address) && stack_base(address) != cpu->contexts.stack->base &&
	       !guest_is_mmio(info, address);
}

/* The last event, if it is of that kind and has that address. */
static struct trace_event *before(const struct trace *trace, enum trace_kind kind, uint64_t address)
{
	struct trace_event *last = trace->nr ? &trace->events[trace->nr - 1] : NULL;

	return last && last->kind == kind && last->address == address ? last : NULL;
}

/* The store that releases a lock is part of the unlock event, no event of its own. */
static bool is_release(const struct trace *trace, uint64_t address, uint64_t early)
{
	return before(trace, TRACE_UNLOCK, address) && trace->executed - early == trace->attributed;
}

/* The event in which the same instruction read what it writes now. Of two lines, it has read both before. */
static struct trace_event *read_of(const struct trace *trace, uint32_t insn, uint64_t address)
{
	for (size_t i = 1; i <= 2 && i <= trace->nr; i++) {
		struct trace_event *event = &trace->events[trace->nr - i];

		if (event->kind == TRACE_READ && event->address == address && event->insn == insn)
			return event;
	}
	return NULL;
}

static void add_part(struct trace *trace, union place place, bool store, uint64_t address, uint32_t bytes)
{
	struct trace_event event = { .kind = TRACE_READ, .address = address, .insn = place.insn, .bytes = bytes };
	struct trace_event *read = NULL;

	if (store) {
		event.kind = place.atomic ? TRACE_ATOMIC : TRACE_WRITE;
		read = read_of(trace, place.insn, address);
	}
	/* What one instruction reads and writes is a write. */
	if (read)
		read->kind = event.kind;
	else if (!is_release(trace, address, place.early))
		traces_add(trace, event, place.early);
}

/* An access to two lines is one to each. */
static void add_access(struct trace *trace, union place place, qemu_plugin_meminfo_t info, uint64_t address)
{
	uint64_t end = address + (1u << qemu_plugin_mem_size_shift(info)), next = line_of(end - 1);
	bool store = qemu_plugin_mem_is_store(info);

	if (next <= address) {
		add_part(trace, place, store, address, end - address);
		return;
	}
	add_part(trace, place, store, address, next - address);
	add_part(trace, place, store, next, end - next);
}

uint32_t trace_events_place(const uint8_t *bytes, size_t size, size_t early)
{
	bool atomic = guest.arch->is_atomic && guest.arch->is_atomic(bytes, size);

	return (uint16_t)early | (uint32_t)atomic << 16;
}

void trace_events_access(const struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t address, uint32_t insn,
			 uint32_t place)
{
	struct trace *trace = traced(cpu);

	if (trace && is_recorded(cpu, info, address))
		add_access(trace, (union place){ .insn = insn, .early = place, .atomic = place >> 16 }, info, address);
}

static void copy(struct trace *trace, union place place, uint32_t bytes)
{
	const struct trace_event event = { .kind = TRACE_COPY, .insn = place.insn, .bytes = bytes };

	if (trace->string.copy == NO_COPY) {
		traces_add(trace, event, place.early);
		trace->string.copy = trace->full ? NO_COPY : trace->nr - 1;
	} else {
		trace->events[trace->string.copy].bytes += bytes;
	}
}

static void add_element(const struct cpu *cpu, struct trace *trace, union place place, qemu_plugin_meminfo_t info,
			uint64_t address, uint32_t bytes)
{
	bool store = qemu_plugin_mem_is_store(info);

	if (trace->string.lines[store] != line_of(address) && is_recorded(cpu, info, address))
		add_part(trace, place, store, address, bytes);
	trace->string.lines[store] = line_of(address);
}

/* All stores of a string instruction are one copy. Each line that it comes to is one access. */
static void on_string(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	const struct cpu *cpu = this_cpu();
	struct trace *trace = traced(cpu);
	union place place = { userdata };
	uint64_t end = address + (1u << qemu_plugin_mem_size_shift(info)), next = line_of(end - 1);
	bool store = qemu_plugin_mem_is_store(info), goes_down;

	if (!trace)
		return;
	if (trace->string.insn != place.insn) {
		memset(&trace->string, 0, sizeof(trace->string));
		trace->string.insn = place.insn;
		trace->string.copy = NO_COPY;
	}
	if (store)
		copy(trace, place, end - address);
	/* A string that goes down has been in the second line already. */
	goes_down = trace->string.lines[store] == next;
	add_element(cpu, trace, place, info, address, (next > address ? next : end) - address);
	if (next > address && !goes_down)
		add_element(cpu, trace, place, info, next, end - next);
}

/* Whether a fill of a unit goes on where the one before ended: both are one fill, whose lines are new if it is large. */
static bool extends_fill(struct trace *trace, uint32_t insn, uint64_t start, uint64_t bytes)
{
	struct trace_event *fill = &trace->events[trace->unit.fill];

	if (trace->unit.insn != insn || trace->unit.next != start || trace->events[trace->nr - 1].insn != insn)
		return false;
	fill->bytes += bytes;
	trace->unit.next += bytes;
	if (fill->bytes < SMALL_FILL)
		return true;
	for (size_t i = trace->unit.fill + 1; i < trace->nr; i++)
		fill->instructions += trace->events[i].instructions;
	trace->nr = trace->unit.fill + 1;
	return true;
}

static void begin_fill(struct trace *trace, uint32_t insn, uint64_t start, uint64_t bytes)
{
	traces_add(trace, (struct trace_event){ .kind = TRACE_FILL, .insn = insn, .bytes = bytes }, 0);
	trace->unit.insn = trace->full ? 0 : insn;
	trace->unit.fill = trace->nr - 1;
	trace->unit.next = start + bytes;
}

void trace_events_fill(struct cpu *cpu, uint32_t insn, uint64_t start, uint64_t bytes, bool unit)
{
	struct trace *trace = traced(cpu);
	struct trace_event event = { .kind = TRACE_WRITE, .insn = insn };
	uint64_t next;

	if (!trace || trace->full)
		return;
	if (!unit || !extends_fill(trace, insn, start, bytes))
		begin_fill(trace, insn, start, bytes);
	if (trace->events[trace->unit.fill].bytes >= SMALL_FILL)
		return;
	for (uint64_t from = start; from < start + bytes; from = next) {
		next = line_of(from) + guest.arch->line_bytes;
		event.address = from;
		event.bytes = (next < start + bytes ? next : start + bytes) - from;
		if (is_kernel_address(from) && stack_base(from) != cpu->contexts.stack->base)
			traces_add(trace, event, 0);
	}
}

void trace_events_lock_acquired(struct cpu *cpu, const struct held_lock *lock)
{
	struct trace *trace = traced(cpu);
	uint64_t call = chain_pc(lock->chain);

	if (trace)
		traces_add(trace, (struct trace_event){
			.kind = TRACE_LOCK,
			.address = lock->lock,
			.by = lock->by,
			.insn = call ? insns_number(call) : 0,
		}, 0);
}

void trace_events_lock_released(struct cpu *cpu, uint64_t lock, const struct lock_function *by, uint64_t early)
{
	struct trace *trace = traced(cpu);
	uint64_t call = chain_pc(cpu->contexts.stack->calls.chain);

	if (!trace)
		return;
	traces_add(trace, (struct trace_event){
		.kind = TRACE_UNLOCK,
		.address = lock,
		.by = by,
		.insn = call ? insns_number(call) : 0,
	}, early);
	/* The rest of the function wakes waiters, where compilers inline that. */
	if (by->sleeps)
		exclude(cpu);
}

void trace_events_execute(struct cpu *cpu, uint64_t instructions)
{
	struct trace *trace = traced(cpu);

	if (!trace)
		return;
	if (!trace->depth) {
		trace->depth = 1;
		traces_add(trace, (struct trace_event){ .kind = TRACE_ENTER }, 0);
	}
	trace->string.insn = 0;
	traces_execute(trace, instructions);
}

static void on_user_instructions(unsigned int nr UNUSED, void *userdata)
{
	struct trace *trace = traced(this_cpu());

	if (!trace)
		return;
	for (; trace->depth; trace->depth--)
		traces_add(trace, (struct trace_event){ .kind = TRACE_EXIT }, 0);
	traces_execute(trace, (uint64_t)userdata);
}

void trace_events_exception(struct cpu *cpu)
{
	struct trace *trace = traced(cpu);

	if (!trace || !trace->depth)
		return;
	trace->depth++;
	traces_add(trace, (struct trace_event){ .kind = TRACE_ENTER }, 0);
}

void trace_events_exception_return(struct cpu *cpu)
{
	struct trace *trace = traced(cpu);

	if (!trace || trace->depth < 2)
		return;
	trace->depth--;
	traces_add(trace, (struct trace_event){ .kind = TRACE_EXIT }, 0);
}

void trace_events_returned(struct stack *stack, uint64_t sp)
{
	if (sp >= stack->excluded_until_sp)
		stack->excluded_until_sp = 0;
}

static void on_wait(unsigned int nr UNUSED, void *userdata UNUSED)
{
	struct cpu *cpu = this_cpu();

	if (traced(cpu))
		exclude(cpu);
}

static void on_downgrade(unsigned int nr UNUSED, void *userdata UNUSED)
{
	struct cpu *cpu = this_cpu();
	struct trace *trace = traced(cpu);
	uint64_t call = chain_pc(cpu->contexts.stack->calls.chain);

	if (!trace)
		return;
	traces_add(trace, (struct trace_event){
		.kind = TRACE_DOWNGRADE,
		.address = guest_read_register(guest.registers.first_argument),
		.by = lock_function("down_write"),
		.insn = call ? insns_number(call) : 0,
	}, 0);
	exclude(cpu);
}

static void on_yield(unsigned int nr UNUSED, void *userdata UNUSED)
{
	struct trace *trace = traced(this_cpu());

	if (trace)
		trace->yields = true;
}

static void on_sleep(unsigned int nr UNUSED, void *userdata UNUSED)
{
	struct cpu *cpu = this_cpu();
	struct trace *trace = traced(cpu);

	if (!trace)
		return;
	if (trace->yields) {
		trace->yields = false;
		return;
	}
	traces_add(trace, (struct trace_event){ .kind = TRACE_SLEEP }, 0);
	exclude(cpu);
}

static void on_wake(unsigned int nr UNUSED, void *userdata UNUSED)
{
	struct trace *trace = traced(this_cpu());

	if (trace)
		traces_add(trace, (struct trace_event){
			.kind = TRACE_WAKE,
			.address = guest_read_register(guest.registers.first_argument),
		}, 0);
}

/* How many other CPUs are in the mask; a CPU's number is the kernel's, too. */
static unsigned int others_in(uint64_t mask, unsigned int self)
{
	size_t bytes = (cpus.nr + 63) / 64 * 8;
	const uint8_t *bits = bytes <= MAX_MASK_BYTES ? guest_read_memory(mask, bytes) : NULL;
	unsigned int nr = 0;

	for (unsigned int cpu = 0; bits && cpu < cpus.nr; cpu++)
		nr += cpu != self && bits[cpu / 8] >> cpu % 8 & 1;
	return nr;
}

static void on_interrupts(unsigned int nr UNUSED, void *userdata UNUSED)
{
	const struct cpu *cpu = this_cpu();
	struct trace *trace = traced(cpu);
	struct trace_event event = { .kind = TRACE_IPI };

	if (!trace)
		return;
	event.bytes = others_in(guest_read_register(guest.registers.first_argument), cpu - cpus.all);
	if (event.bytes)
		traces_add(trace, event, 0);
}

static void on_broadcast(unsigned int nr UNUSED, void *userdata UNUSED)
{
	struct trace *trace = traced(this_cpu());

	if (trace)
		trace->broadcast = true;
}

static void on_broadcast_awaited(unsigned int nr UNUSED, void *userdata)
{
	struct trace *trace = traced(this_cpu());
	union place place = { userdata };

	if (!trace || !trace->broadcast)
		return;
	trace->broadcast = false;
	if (cpus.nr > 1)
		traces_add(trace, (struct trace_event){
			.kind = TRACE_TLBI,
			.insn = place.insn,
			.bytes = cpus.nr - 1,
		}, place.early);
}

void trace_events_watch_broadcast(struct qemu_plugin_insn *insn, const uint8_t *bytes, size_t size, size_t early)
{
	enum broadcast_kind kind = guest.arch->broadcast ? guest.arch->broadcast(bytes, size) : BROADCAST_NONE;
	union place place = { .early = early };

	if (kind == BROADCAST_SENT)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_broadcast, QEMU_PLUGIN_CB_NO_REGS, NULL);
	if (kind != BROADCAST_AWAITED)
		return;
	place.insn = insns_number(qemu_plugin_insn_vaddr(insn));
	qemu_plugin_register_vcpu_insn_exec_cb(insn, on_broadcast_awaited, QEMU_PLUGIN_CB_NO_REGS, place.userdata);
}

void trace_events_watch_entry(struct qemu_plugin_insn *insn, enum trace_function function)
{
	static const qemu_plugin_vcpu_udata_cb_t callbacks[] = {
		[TRACE_WAITS] = on_wait,
		[TRACE_DOWNGRADES] = on_downgrade,
		[TRACE_SLEEPS] = on_sleep,
		[TRACE_YIELDS] = on_yield,
		[TRACE_WAKES] = on_wake,
		[TRACE_INTERRUPTS] = on_interrupts,
	};

	if (function != TRACE_NOTHING)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, callbacks[function], QEMU_PLUGIN_CB_R_REGS, NULL);
}

void trace_events_watch_string(struct qemu_plugin_insn *insn, size_t early)
{
	union place place = { .insn = insns_number(qemu_plugin_insn_vaddr(insn)), .early = early };

	qemu_plugin_register_vcpu_mem_cb(insn, on_string, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, place.userdata);
}

void trace_events_watch_user(struct qemu_plugin_tb *tb, size_t nr_insns)
{
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_user_instructions, QEMU_PLUGIN_CB_NO_REGS,
					     (void *)nr_insns);
}

void trace_events_last(struct cpu *cpu, uint64_t task)
{
	traces_end(task, cpu->contexts.stack->trace && !cpu->contexts.stack->excluded_until_sp);
	cpu->contexts.stack->trace = NULL;
	cpu->contexts.stack->excluded_until_sp = 0;
}

void trace_events_next(struct cpu *cpu, uint64_t task, uint64_t number)
{
	trace_events_last(cpu, task);
	cpu->contexts.stack->trace = traces_begin(task, number, cpu->contexts.stack->base);
}
