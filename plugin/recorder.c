// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The recorder: a QEMU plugin that counts, while a workload's tasks do a fixed number of operations, how often each
 * kernel instruction on each CPU touches each cache line.
 *
 * Until the agent's mark MARK_ARM nothing is instrumented but the marks themselves, so a boot runs at full speed. The
 * mark throws all translated code away; from then on kernel code is translated with a callback at each access, user
 * code with one at each store, to see the tasks count their operations, and if user memory is to be recorded too, at
 * each access. MARK_DISARM writes the result and throws the instrumented code away again.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../guest/recorder.h"
#include "allocations.h"
#include "arch.h"
#include "chains.h"
#include "lines.h"
#include "locks.h"
#include "pages.h"
#include "qemu_api.h"
#include "work.h"

#define UNUSED __attribute__((unused))
#define NOINLINE __attribute__((noinline)) /* keeps the usual path of its caller short */

#define MAX_ENTRIES 1024
#define NR_STACKS 1024
#define MAX_NESTING 32
#define MAX_LOCK_FUNCTIONS 64
#define MAX_TRACERS 4
#define NR_SITES 4096
#define MAX_ERRNO 4095 /* errors are the last addresses: include/linux/err.h */
#define MOST_AT_ONCE 4096 /* objects that one call allocates */
#define TABLES_BYTES (512ull << 20) /* for all CPUs together */

EXPORT int qemu_plugin_version = QEMU_PLUGIN_API_VERSION;
EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv);

/*
 * A kernel stack, which stands for the task that owns it. Interrupts and exceptions nest on it; the last one is the
 * lowest bit of `interrupts`, set if it is an interrupt.
 */
struct stack {
	uint64_t base; /* 0: unused */
	uint32_t interrupts;
	uint8_t nesting;
	bool user;    /* was entered from user mode: a user task's */
	bool task;    /* was switched to: some task's */
	bool preempted; /* is in the scheduler because its time is up */
	uint64_t delayed; /* handles delayed interrupts, until a return with the stack pointer there; 0: does not */
	struct lock_holder locks; /* for which others sleep */
	struct lock_list taking;
	struct call_stack calls;
};

struct cpu {
	struct stack *stack; /* the one this CPU is on */
	enum context context;
	unsigned int recording;	 /* tasks on this CPU that are in their recorded operations */
	bool in_user;		 /* ran user code last */
	bool entering;		 /* came from user mode, and has not called a function yet */
	bool apart;		 /* is on a stack for emergencies, until the interrupt's return */
	bool switching;		 /* is about to change to another task's stack */
	bool entering_agent;	 /* the task that enters the kernel now is the agent */
	struct site *string[2];	 /* what loads and stores for the string instruction that runs and is recorded, or NULL */
	struct line_table lines;
	struct work_table work;
	struct lock_holder locks; /* for which others spin: whatever task runs, no other CPU releases them */
	struct lock_table lock_table;
	struct stack stacks[NR_STACKS];
};

/*
 * An instruction that accesses memory, and what it did to the line that it accessed last. Most instructions access the
 * line that they accessed before, and finding a line in a CPU's table costs most of all: only a change of line or of
 * CPU goes to the table. No lock: one thread runs all CPUs.
 */
struct site {
	struct line_count count; /* key 0: nothing yet */
	struct cpu *cpu;
};

/* In the order of translation, which is nearly that in which they are used. They live until code is thrown away. */
struct sites {
	struct site sites[NR_SITES];
	unsigned int used;
	struct sites *next;
};

struct slot {
	uint64_t first, last; /* values of the task's counter */
	uint64_t operations;  /* done while its CPU records, for itself or for another task there */
	struct cpu *cpu;
	enum { SLOT_WAITS, SLOT_RECORDS, SLOT_DONE } state;
};

static const struct arch *arch;
static qemu_plugin_id_t plugin_id;
static unsigned int nr_cpus;
static struct cpu *cpus;
static GArray *registers; /* of each CPU */
static struct qemu_plugin_register *mark_registers[4], *call_registers[3], *stack_register, *condition_register,
	*state_register, *saved_state_register;
static GByteArray *buffer;
static const char *out_folder;
static FILE *symbols;
static uint64_t *per_cpu_offsets; /* where each CPU's variables lie; NULL: unknown */
static uint64_t agent_stack;
static bool armed;
static bool knows_kernel; /* has read what it needs of the kernel's symbols and memory */
static struct sites *sites;
static struct block *blocks;

static struct recorder_arm arm;
static struct slot *slots;

/* Where the kernel enters an interrupt or an exception, switches tasks, allocates: sorted by address. */
static struct entry {
	uint64_t address;
	enum entry_kind kind;
} entries[MAX_ENTRIES];
static unsigned int nr_entries;

/* The same of functions that take or release locks. */
static struct lock_entry {
	uint64_t address;
	const struct lock_function *function;
} lock_entries[MAX_LOCK_FUNCTIONS];
static unsigned int nr_lock_entries;

/* What is called at the start of functions, to trace them. */
static uint64_t tracers[MAX_TRACERS];
static unsigned int nr_tracers;

/* Addresses of all the kernel's functions, sorted. */
static uint64_t *functions;
static size_t nr_functions;

static void *cpu_state;
static struct cpu *cpu_of_state;

static NOINLINE struct cpu *find_cpu(void *state)
{
	unsigned int nr = 0;

	while (nr < nr_cpus - 1 && qemu_get_cpu(nr) != state)
		nr++;
	cpu_state = state;
	return cpu_of_state = &cpus[nr];
}

/*
 * The CPU that runs. QEMU 10 passes a wrong number to callbacks where one thread runs all CPUs: it compiles the
 * number of the CPU that translated the code into code that all share (gen_cpu_index() in accel/tcg/plugin-gen.c).
 */
static inline struct cpu *this_cpu(void)
{
	return cpu_state == current_cpu ? cpu_of_state : find_cpu(current_cpu);
}

static uint64_t read_register(struct qemu_plugin_register *handle)
{
	uint64_t value = 0;
	int size;

	g_byte_array_set_size(buffer, 0);
	size = qemu_plugin_read_register(handle, buffer);
	if (size > 0 && (size_t)size <= sizeof(value))
		memcpy(&value, buffer->data, size);
	return value;
}

static enum context context_of(const struct stack *stack)
{
	if (stack->interrupts || stack->preempted || stack->delayed)
		return CONTEXT_INTERRUPT;
	if (stack->base == agent_stack)
		return CONTEXT_HARNESS;
	if (stack->user)
		return CONTEXT_OPERATION;
	/* A stack that no task was seen to own is an interrupt's. */
	return stack->task ? CONTEXT_KTHREAD : CONTEXT_INTERRUPT;
}

/* Where the stack is noted, or is to be: a used place of another stack is given up where eight in a row are used. */
static struct stack *stack_place(struct cpu *cpu, uint64_t base)
{
	uint64_t at = base / arch->stack_bytes * 0x9e3779b97f4a7c15 >> 32;
	struct stack *place = NULL;

	for (unsigned int probes = 0; probes < 8; probes++) {
		place = &cpu->stacks[(at + probes) % NR_STACKS];
		if (place->base == base || !place->base)
			break;
	}
	return place;
}

static struct stack *find_stack(struct cpu *cpu, uint64_t base)
{
	struct stack *stack = stack_place(cpu, base);

	/* A task whose place was given up is learnt again when it next enters the kernel. */
	if (stack->base != base) {
		memset(stack, 0, offsetof(struct stack, calls));
		stack->base = base;
		chain_reset(&stack->calls);
	}
	return stack;
}

/* The CPU called or returned with its stack pointer at `address`. */
static void on_stack_at(struct cpu *cpu, uint64_t address, bool is_call)
{
	uint64_t base = address & ~(arch->stack_bytes - 1);
	bool entering = cpu->entering;

	if (base == cpu->stack->base && !entering && !cpu->switching)
		return;
	if (address >= arch->no_stack_from && address < arch->no_stack_to)
		return;
	if (base != cpu->stack->base) {
		const struct stack *before = cpu->stack;

		cpu->stack = find_stack(cpu, base);
		cpu->stack->task |= cpu->switching;
		/* Down to an interrupt's stack: its chain goes on from where the CPU was. */
		if (is_call && !cpu->stack->task && !cpu->stack->user && !entering)
			chain_continue(&cpu->stack->calls, before->calls.chain);
		cpu->switching = false;
	}
	if (entering) {
		cpu->stack->user = true;
		if (cpu->entering_agent)
			agent_stack = base;
		cpu->entering = cpu->entering_agent = false;
	}
	cpu->context = context_of(cpu->stack);
}

/* The stack is the one from which the task returned to user mode: nothing is on it. */
static void enter_user_mode(struct cpu *cpu)
{
	if (cpu->in_user)
		return;
	cpu->in_user = true;
	cpu->stack->interrupts = cpu->stack->nesting = 0;
	cpu->stack->preempted = false;
	cpu->stack->delayed = 0;
	chain_reset(&cpu->stack->calls);
	cpu->stack->taking.nr = 0;
	locks_forget(&cpu->lock_table, &cpu->stack->locks);
	locks_forget(&cpu->lock_table, &cpu->locks);
	cpu->context = cpu->stack->base == agent_stack ? CONTEXT_HARNESS : CONTEXT_OPERATION;
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
}

/* The stack that is interrupted may be one that was not seen yet; early in a system call it is still the user's. */
static void find_interrupted(struct cpu *cpu, uint64_t sp)
{
	if (sp >= arch->kernel_start)
		on_stack_at(cpu, sp, false);
}

static void on_entry(unsigned int nr UNUSED, void *userdata)
{
	const struct entry *entry = userdata;
	struct cpu *cpu = this_cpu();

	if (entry->kind == ENTRY_APART) {
		cpu->apart = true;
		return;
	}
	if (stack_register && !cpu->in_user)
		find_interrupted(cpu, read_register(stack_register));
	leave_user_mode(cpu);
	if (entry->kind == ENTRY_SWITCH) {
		cpu->switching = true;
		return;
	}
	if (entry->kind == ENTRY_PREEMPTED || entry->kind == ENTRY_RESUMED) {
		cpu->stack->preempted = entry->kind == ENTRY_PREEMPTED;
	} else if (entry->kind == ENTRY_DELAYED) {
		if (!cpu->stack->delayed)
			cpu->stack->delayed = chain_sp(&cpu->stack->calls);
	} else if (cpu->stack->nesting < MAX_NESTING) {
		chain_enter(&cpu->stack->calls, entry->address, entry->kind == ENTRY_INTERRUPT);
		cpu->stack->nesting++;
		cpu->stack->interrupts = cpu->stack->interrupts << 1 | (entry->kind == ENTRY_INTERRUPT);
	}
	cpu->context = context_of(cpu->stack);
}

static void on_interrupt_return(unsigned int nr UNUSED, void *userdata UNUSED)
{
	struct cpu *cpu = this_cpu();

	cpu->apart = false;
	if (saved_state_register) {
		uint64_t state = read_register(saved_state_register);

		/* The next interrupt may come before the first instruction of user code. */
		if (state & arch->user_state)
			enter_user_mode(cpu);
		if (state & arch->user_state || !(state & arch->virtual_state))
			return;
	}
	if (!cpu->stack->nesting)
		return;
	chain_leave(&cpu->stack->calls);
	cpu->stack->nesting--;
	cpu->stack->interrupts >>= 1;
	cpu->context = context_of(cpu->stack);
}

static void call(uint64_t pc, uint64_t sp)
{
	struct cpu *cpu = this_cpu();

	if (cpu->apart)
		return;
	leave_user_mode(cpu);
	on_stack_at(cpu, sp, true);
	chain_call(&cpu->stack->calls, pc, sp);
}

static void on_call(unsigned int nr UNUSED, qemu_plugin_meminfo_t info UNUSED, uint64_t address, void *userdata)
{
	call((uint64_t)userdata, address);
}

static void on_call_insn(unsigned int nr UNUSED, void *userdata)
{
	call((uint64_t)userdata, read_register(stack_register));
}

static bool read_guest(uint64_t address, size_t length)
{
	return qemu_plugin_read_memory_vaddr(address, buffer, length) && buffer->len >= length;
}

static bool is_allocator(enum entry_kind kind)
{
	return kind == ENTRY_ALLOCATES || kind == ENTRY_ALLOCATES_MANY;
}

static void on_allocator(unsigned int nr UNUSED, void *userdata)
{
	const struct entry *entry = userdata;
	bool many = entry->kind == ENTRY_ALLOCATES_MANY;

	chain_allocates(&this_cpu()->stack->calls, read_register(call_registers[1]),
			many ? read_register(call_registers[2]) : 0);
}

static NOINLINE void on_allocated(struct cpu *cpu, uint64_t sp)
{
	struct allocation allocation;
	uint64_t result;

	if (!chain_allocated(&cpu->stack->calls, sp, &allocation))
		return;
	result = read_register(call_registers[0]);
	if (!allocation.array) {
		if (result >= arch->kernel_start && result < -(uint64_t)MAX_ERRNO)
			allocations_add(result, &allocation);
	} else if (result <= MOST_AT_ONCE && read_guest(allocation.array, result * sizeof(uint64_t))) {
		for (uint64_t i = 0; i < result; i++)
			allocations_add(((uint64_t *)buffer->data)[i], &allocation);
	}
}

static struct lock_holder *holder(struct cpu *cpu, const struct lock_function *function)
{
	return function->sleeps ? &cpu->stack->locks : &cpu->locks;
}

static void on_lock_function(unsigned int nr UNUSED, void *userdata)
{
	const struct lock_function *function = userdata;
	struct cpu *cpu = this_cpu();
	struct lock_hold hold = { .by = function, .chain = cpu->stack->calls.chain, .context = cpu->context };

	if (function->action == LOCK_RELEASE) {
		if (holder(cpu, function)->held.nr)
			locks_release(&cpu->lock_table, holder(cpu, function), read_register(call_registers[1]), 0);
		return;
	}
	hold.sp = chain_sp(&cpu->stack->calls);
	if (!cpu->recording || cpu->context == CONTEXT_HARNESS || !hold.sp)
		return;
	hold.lock = read_register(call_registers[1]);
	locks_begin(&cpu->stack->taking, &hold);
}

static NOINLINE void end_taking(struct cpu *cpu, uint64_t sp)
{
	struct lock_hold hold;

	if (locks_end(&cpu->stack->taking, sp, &hold) && locks_taken(hold.by, read_register(call_registers[0])))
		locks_hold(holder(cpu, hold.by), hold);
}

/* A function that releases a lock is no call where the compiler or the kernel has put its one store in place of it. */
static void on_unlocking_store(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	struct cpu *cpu = this_cpu();

	if (cpu->locks.held.nr && qemu_plugin_mem_is_store(info))
		locks_release(&cpu->lock_table, &cpu->locks, address, (uint64_t)userdata);
}

static void end_delayed(struct cpu *cpu, uint64_t sp)
{
	if (sp < cpu->stack->delayed)
		return;
	cpu->stack->delayed = 0;
	cpu->context = context_of(cpu->stack);
}

static void return_at(uint64_t sp)
{
	struct cpu *cpu = this_cpu();

	if (cpu->apart)
		return;
	leave_user_mode(cpu);
	on_stack_at(cpu, sp, false);
	if (cpu->stack->taking.nr)
		end_taking(cpu, sp);
	if (cpu->stack->delayed)
		end_delayed(cpu, sp);
	chain_return(&cpu->stack->calls, sp);
	if (cpu->stack->calls.nr_allocations)
		on_allocated(cpu, sp);
}

static void on_return(unsigned int nr UNUSED, qemu_plugin_meminfo_t info UNUSED, uint64_t address,
		      void *userdata UNUSED)
{
	return_at(address);
}

static void on_return_insn(unsigned int nr UNUSED, void *userdata UNUSED)
{
	return_at(read_register(stack_register));
}

static void on_conditional_return(unsigned int nr UNUSED, void *userdata)
{
	if (arch->returns((uint64_t)userdata, read_register(condition_register)))
		return_at(read_register(stack_register));
}

static struct site *new_site(uint64_t pc)
{
	struct site *site;

	if (!sites || sites->used == NR_SITES) {
		struct sites *more = calloc(1, sizeof(*more));

		if (!more)
			abort();
		more->next = sites;
		sites = more;
	}
	site = &sites->sites[sites->used++];
	site->count.pc = pc;
	return site;
}

static void empty_site(struct site *site)
{
	if (site->count.key)
		lines_add(&site->cpu->lines, &site->count);
	site->count = (struct line_count){ .pc = site->count.pc };
}

static void empty_sites(void)
{
	for (struct sites *some = sites; some; some = some->next)
		for (unsigned int i = 0; i < some->used; i++)
			empty_site(&some->sites[i]);
	for (unsigned int nr = 0; nr < nr_cpus; nr++)
		cpus[nr].string[0] = cpus[nr].string[1] = NULL;
}

/* The task's own stack, wherever a pointer to it came from, and the user's memory are no conflict. */
static inline bool is_recorded(const struct cpu *cpu, uint64_t address)
{
	return cpu->recording && arm.what & RECORD_CONFLICTS && cpu->context != CONTEXT_HARNESS &&
	       address >= arch->kernel_start && (address & ~(arch->stack_bytes - 1)) != cpu->stack->base;
}

static inline bool is_slot(uint64_t address)
{
	return address - arm.slots < arm.nr_slots * arm.slot_bytes;
}

/* By which address the line of a recorded access to user memory is known: the physical one; 0 if it is not recorded. */
static NOINLINE uint64_t user_place(const struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t address)
{
	struct qemu_plugin_hwaddr *hwaddr;
	uint64_t place;

	if (!(arm.what & RECORD_USER) || !(arm.what & RECORD_CONFLICTS) || address >= arch->kernel_start ||
	    !cpu->recording || cpu->context == CONTEXT_HARNESS || is_slot(address))
		return 0;
	hwaddr = qemu_plugin_get_hwaddr(info, address);
	if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr))
		return 0;
	place = qemu_plugin_hwaddr_phys_addr(hwaddr);
	pages_note(place, address);
	return place;
}

static bool is_device(qemu_plugin_meminfo_t info, uint64_t address)
{
	struct qemu_plugin_hwaddr *hwaddr = qemu_plugin_get_hwaddr(info, address);

	return hwaddr && qemu_plugin_hwaddr_is_io(hwaddr);
}

/* What QEMU says of an access: there are few kinds, and to ask takes longer than to count. */
struct kind {
	qemu_plugin_meminfo_t info;
	bool store;
	uint64_t bytes; /* of line_count, at the line's start; 0: not asked yet */
};

static inline struct kind *kind_place(qemu_plugin_meminfo_t info)
{
	static struct kind kinds[256];

	return &kinds[(info ^ info >> 8) % 256];
}

static const struct kind *find_kind(qemu_plugin_meminfo_t info)
{
	struct kind *kind = kind_place(info);

	if (kind->info != info || !kind->bytes)
		*kind = (struct kind){ info, qemu_plugin_mem_is_store(info),
				       lines_bytes(0, qemu_plugin_mem_size_shift(info)) };
	return kind;
}

static inline void count(struct site *site, uint64_t address, const struct kind *kind)
{
	site->count.bytes |= kind->bytes << (address & (LINE_BYTES - 1));
	if (kind->store)
		site->count.writes++;
	else
		site->count.reads++;
}

static inline bool is_at(const struct site *site, const struct cpu *cpu, uint64_t address)
{
	return site->count.key == lines_key(address, cpu->context) && site->count.chain == cpu->stack->calls.chain &&
	       site->cpu == cpu;
}

static void go_to(struct site *site, struct cpu *cpu, uint64_t address)
{
	empty_site(site);
	site->count.key = lines_key(address, cpu->context);
	site->count.chain = cpu->stack->calls.chain;
	site->cpu = cpu;
}

/* `place` is the address by which the line is known. */
static void count_access(struct cpu *cpu, struct site *site, qemu_plugin_meminfo_t info, uint64_t place)
{
	if (!is_at(site, cpu, place)) {
		/* A device register, such as a clock's, is the emulator's, and no cache line. */
		if (place >= arch->kernel_start && is_device(info, place))
			return;
		go_to(site, cpu, place);
	}
	count(site, place, find_kind(info));
}

static NOINLINE void on_other_access(qemu_plugin_meminfo_t info, uint64_t address, struct site *site)
{
	struct cpu *cpu = this_cpu();
	uint64_t place = is_recorded(cpu, address) ? address : user_place(cpu, info, address);

	if (!place)
		return;
	cpu->string[0] = cpu->string[1] = NULL;
	count_access(cpu, site, info, place);
}

static void on_access(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	struct site *site = userdata;
	struct cpu *cpu = cpu_of_state;
	const struct kind *kind = kind_place(info);

	/* How fast recording is depends on this path most of all: it calls nothing. */
	if (cpu_state != current_cpu || kind->info != info || !is_recorded(cpu, address) || !is_at(site, cpu, address)) {
		on_other_access(info, address, site);
		return;
	}
	cpu->string[0] = cpu->string[1] = NULL;
	count(site, address, kind);
}

/* A processor copies a whole line at once, where the emulator does it byte by byte: one access a line. */
static void on_string_access(struct site *site, qemu_plugin_meminfo_t info, uint64_t address, bool store)
{
	struct cpu *cpu = this_cpu();
	uint64_t place = is_recorded(cpu, address) ? address : user_place(cpu, info, address);

	if (!place)
		return;
	if (cpu->string[store] == site && is_at(site, cpu, place)) {
		site->count.bytes |= find_kind(info)->bytes << (place & (LINE_BYTES - 1));
		return;
	}
	count_access(cpu, site, info, place);
	cpu->string[store] = site;
}

static void on_string_load(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	on_string_access(userdata, info, address, false);
}

static void on_string_store(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	on_string_access(userdata, info, address, true);
}

/*
 * An instruction that fills memory, which the emulator does element by element, or out of sight: one access a line too.
 * Its registers tell all that it will do, and in the kernel's memory no fault keeps it from that, so there is no need
 * to see every element.
 */
struct fill {
	struct site *site;
	struct fill_form form;
	struct qemu_plugin_register *start[2], *count;
	uint64_t end, left; /* the range's end, and its bytes that were left when the instruction last began */
};

static struct qemu_plugin_register *find_register(const char *name)
{
	const qemu_plugin_reg_descriptor *descriptor = (void *)registers->data;

	for (unsigned int i = 0; name && i < registers->len; i++)
		if (!strcmp(descriptor[i].name, name))
			return descriptor[i].handle;
	return NULL;
}

static struct fill *new_fill(uint64_t pc, struct fill_form form)
{
	struct fill *fill = calloc(1, sizeof(*fill));

	if (!fill)
		abort();
	fill->site = new_site(pc);
	fill->form = form;
	fill->start[0] = find_register(form.start[0]);
	fill->start[1] = find_register(form.start[1]);
	fill->count = find_register(form.count);
	return fill;
}

static uint64_t fill_start(const struct fill *fill)
{
	uint64_t start = read_register(fill->start[0]);

	if (fill->start[1])
		start += read_register(fill->start[1]);
	return fill->form.aligned ? start & ~(uint64_t)(fill->form.element - 1) : start;
}

static void count_fill(struct cpu *cpu, struct site *site, uint64_t start, uint64_t end)
{
	uint64_t next;

	cpu->string[0] = cpu->string[1] = NULL;
	for (uint64_t from = start; from < end; from = next) {
		next = (from & ~(uint64_t)(LINE_BYTES - 1)) + LINE_BYTES;
		if (!is_recorded(cpu, from))
			continue;
		if (!is_at(site, cpu, from))
			go_to(site, cpu, from);
		site->count.bytes |= lines_range(from, next < end ? next : end);
		site->count.writes += from == start || !(from & (arch->line_bytes - 1));
	}
}

static void on_fill(unsigned int nr UNUSED, void *userdata)
{
	struct fill *fill = userdata;
	struct cpu *cpu = this_cpu();
	uint64_t from, end, left;
	bool goes_on;

	if (!cpu->recording)
		return;
	from = fill_start(fill);
	left = (fill->count ? read_register(fill->count) : 1) * fill->form.element;
	end = from + left;
	/* A long one begins anew now and then, for QEMU to look for interrupts. */
	goes_on = end == fill->end && left < fill->left;
	fill->end = end;
	fill->left = left;
	if (!goes_on)
		count_fill(cpu, fill->site, from, end);
}

static void on_call_by_memory(unsigned int nr, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	const struct site *site = userdata;

	if (qemu_plugin_mem_is_store(info))
		on_call(nr, info, address, (void *)site->count.pc);
	else
		on_access(nr, info, address, userdata);
}

static uint64_t stored_value(qemu_plugin_meminfo_t info)
{
	qemu_plugin_mem_value value = qemu_plugin_mem_get_value(info);

	return value.type == 3 ? value.data.u64 : value.data.u32;
}

/* A task has begun its recorded operations, or ended them. */
static void change_recording(const struct slot *slot, int by)
{
	for (unsigned int nr = 0; nr < nr_cpus; nr++)
		if (&cpus[nr] == slot->cpu || arm.what & RECORD_EVERYWHERE)
			cpus[nr].recording += by;
}

/* A task counts its operations in user memory: that is where its recording begins and ends. */
static void on_user_store(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address,
			  void *userdata UNUSED)
{
	struct slot *slot;
	uint64_t value;

	if (!is_slot(address))
		return;
	slot = &slots[(address - arm.slots) / arm.slot_bytes];
	value = stored_value(info);
	if (slot->state == SLOT_WAITS) {
		slot->first = value;
		slot->cpu = this_cpu();
		slot->state = SLOT_RECORDS;
		change_recording(slot, 1);
	} else if (slot->cpu->recording) {
		slot->operations += value - slot->last;
	}
	slot->last = value;
	if (slot->state == SLOT_RECORDS && value - slot->first >= arm.operations) {
		slot->state = SLOT_DONE;
		change_recording(slot, -1);
		slot->cpu->string[0] = slot->cpu->string[1] = NULL;
	}
}

static void on_user_access(unsigned int nr, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	if (qemu_plugin_mem_is_store(info))
		on_user_store(nr, info, address, NULL);
	on_other_access(info, address, userdata);
}

/*
 * Instructions that are executed together, and their function; and, as for a site, how often they were since their
 * CPU, context or chain last changed, which the CPU's table does not know yet. They live until code is thrown away.
 */
struct block {
	struct work work; /* of one execution */
	struct cpu *cpu;
	uint32_t executions;
	struct block *next;
};

static void empty_block(struct block *block)
{
	if (block->executions)
		work_count(&block->cpu->work, &block->work, block->executions);
	block->executions = 0;
}

static void on_block(unsigned int nr UNUSED, void *userdata)
{
	struct block *block = userdata;
	struct cpu *cpu = this_cpu();

	if (!cpu->recording || cpu->context == CONTEXT_HARNESS)
		return;
	if (block->cpu != cpu || block->work.chain != cpu->stack->calls.chain || block->work.context != cpu->context) {
		empty_block(block);
		block->cpu = cpu;
		block->work.chain = cpu->stack->calls.chain;
		block->work.context = cpu->context;
	}
	block->executions++;
}

/* So many instructions, which are executed together, begin. */
static void on_instructions(unsigned int nr UNUSED, void *userdata)
{
	struct cpu *cpu = this_cpu();

	locks_execute(&cpu->locks, cpu->context, (uint64_t)userdata);
	locks_execute(&cpu->stack->locks, cpu->context, (uint64_t)userdata);
}

/* All translated code was thrown away, and its sites and blocks with it. */
static void on_flush(qemu_plugin_id_t id UNUSED)
{
	empty_sites();
	while (sites) {
		struct sites *next = sites->next;

		free(sites);
		sites = next;
	}
	while (blocks) {
		struct block *next = blocks->next;

		empty_block(blocks);
		free(blocks);
		blocks = next;
	}
}

static uint64_t function_of(uint64_t pc)
{
	size_t from = 0, to = nr_functions;

	while (to - from > 1) {
		size_t middle = (from + to) / 2;

		if (functions[middle] <= pc)
			from = middle;
		else
			to = middle;
	}
	return nr_functions && functions[from] <= pc ? functions[from] : pc;
}

static struct block *new_block(const struct qemu_plugin_tb *tb)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		abort();
	block->work.function = function_of(qemu_plugin_tb_vaddr(tb));
	block->work.instructions = qemu_plugin_tb_n_insns(tb);
	block->next = blocks;
	return blocks = block;
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void add_function(uint64_t address)
{
	static size_t room;

	if (nr_functions == room) {
		uint64_t *more = realloc(functions, (room + (1 << 16)) * sizeof(*functions));

		if (!more)
			return;
		functions = more;
		room += 1 << 16;
	}
	functions[nr_functions++] = address;
}

static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static int compare_lock_entries(const void *a, const void *b)
{
	const struct lock_entry *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* Where locks are taken and released; `left` instructions of the block are not executed before this one. */
static void translate_lock(struct qemu_plugin_insn *insn, uint64_t left)
{
	const struct lock_entry key = { .address = qemu_plugin_insn_vaddr(insn) };
	const struct lock_entry *entry =
		bsearch(&key, lock_entries, nr_lock_entries, sizeof(key), compare_lock_entries);
	uint8_t bytes[16];
	size_t size = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));

	if (entry)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_lock_function, QEMU_PLUGIN_CB_R_REGS,
						       (void *)entry->function);
	if (arch->may_unlock && arch->may_unlock(bytes, size))
		qemu_plugin_register_vcpu_mem_cb(insn, on_unlocking_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
						 (void *)left);
}

static bool is_call_of_tracer(const uint8_t *bytes, size_t size, uint64_t pc)
{
	uint64_t call, next;

	for (unsigned int i = 0; i < nr_tracers; i++)
		if (arch->find_call(bytes, size, pc, tracers[i], &call, &next))
			return true;
	return false;
}

static void translate_call(struct qemu_plugin_insn *insn, uint64_t pc)
{
	if (stack_register)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_call_insn, QEMU_PLUGIN_CB_R_REGS, (void *)pc);
	else
		qemu_plugin_register_vcpu_mem_cb(insn, on_call, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, (void *)pc);
}

static void translate_return(struct qemu_plugin_insn *insn)
{
	if (stack_register)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_return_insn, QEMU_PLUGIN_CB_R_REGS, NULL);
	else
		qemu_plugin_register_vcpu_mem_cb(insn, on_return, QEMU_PLUGIN_CB_R_REGS, QEMU_PLUGIN_MEM_R, NULL);
}

static void translate_conditional_return(struct qemu_plugin_insn *insn, const uint8_t *bytes)
{
	uint32_t code;

	memcpy(&code, bytes, sizeof(code));
	qemu_plugin_register_vcpu_insn_exec_cb(insn, on_conditional_return, QEMU_PLUGIN_CB_R_REGS,
					       (void *)(uint64_t)code);
}

static void translate_kernel(struct qemu_plugin_tb *tb)
{
	struct block *block = arm.what & RECORD_WORK ? new_block(tb) : NULL;
	size_t nr_insns = qemu_plugin_tb_n_insns(tb);

	for (size_t i = 0; i < nr_insns; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		const struct entry key = { .address = pc };
		struct entry *entry = bsearch(&key, entries, nr_entries, sizeof(key), compare_entries);
		uint8_t bytes[16];
		size_t size = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));
		enum insn_kind kind;

		if (entry && is_allocator(entry->kind))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_allocator, QEMU_PLUGIN_CB_R_REGS, entry);
		else if (entry)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_entry, QEMU_PLUGIN_CB_R_REGS, entry);
		if (arm.what & RECORD_LOCKS)
			translate_lock(insn, nr_insns - i);
		/* After the entry: the block belongs to what was entered. */
		if (i == 0 && block)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_block, QEMU_PLUGIN_CB_NO_REGS, block);
		if (i == 0 && arm.what & RECORD_LOCKS)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_instructions, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)nr_insns);
		kind = arch->classify(bytes, size);
		/* Call chains need calls and returns; all else is only for conflicts. */
		if (!(arm.what & RECORD_CONFLICTS) && (kind == INSN_OTHER || kind == INSN_FILL || kind == INSN_STRING))
			continue;
		switch (kind) {
		case INSN_STACK:
			break;
		case INSN_INTERRUPT_RETURN:
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_interrupt_return, QEMU_PLUGIN_CB_R_REGS,
							       NULL);
			break;
		case INSN_USER_RETURN:
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_user_code, QEMU_PLUGIN_CB_NO_REGS, NULL);
			break;
		case INSN_CALL:
			if (!is_call_of_tracer(bytes, size, pc))
				translate_call(insn, pc);
			break;
		case INSN_RETURN:
			translate_return(insn);
			break;
		case INSN_MAY_RETURN:
			translate_conditional_return(insn, bytes);
			break;
		case INSN_CALL_BY_MEMORY:
			qemu_plugin_register_vcpu_mem_cb(insn, on_call_by_memory, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_RW, new_site(pc));
			break;
		case INSN_FILL:
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_fill, QEMU_PLUGIN_CB_R_REGS,
							       new_fill(pc, arch->fill(bytes, size)));
			break;
		case INSN_STRING:
			qemu_plugin_register_vcpu_mem_cb(insn, on_string_load, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_R, new_site(pc));
			qemu_plugin_register_vcpu_mem_cb(insn, on_string_store, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_W, new_site(pc));
			break;
		case INSN_OTHER:
			qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
							 new_site(pc));
			break;
		}
	}
}

static void on_mark(unsigned int nr, void *userdata);

/* All memory, the stack too: others may have a pointer to what lies there. */
static void translate_user_access(struct qemu_plugin_insn *insn, enum insn_kind kind)
{
	struct site *site = new_site(qemu_plugin_insn_vaddr(insn));

	/* A page fault may end a fill early in user memory: it is counted as it goes on. */
	if (kind == INSN_STRING || kind == INSN_FILL) {
		qemu_plugin_register_vcpu_mem_cb(insn, on_string_load, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R, site);
		qemu_plugin_register_vcpu_mem_cb(insn, on_string_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
						 new_site(qemu_plugin_insn_vaddr(insn)));
	} else {
		qemu_plugin_register_vcpu_mem_cb(insn, on_user_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, site);
	}
}

static void translate_user(struct qemu_plugin_tb *tb)
{
	if (armed)
		qemu_plugin_register_vcpu_tb_exec_cb(tb, on_user_code, QEMU_PLUGIN_CB_NO_REGS, NULL);
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t bytes[16];
		size_t size = qemu_plugin_insn_data(insn, bytes, sizeof(bytes));

		if (arch->is_mark(bytes, size))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, QEMU_PLUGIN_CB_R_REGS, NULL);
		else if (armed && arm.what & RECORD_USER)
			translate_user_access(insn, arch->classify(bytes, size));
		else if (armed)
			qemu_plugin_register_vcpu_mem_cb(insn, on_user_store, QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_W, NULL);
	}
}

static void learn_kernel(void);

static void on_translation(qemu_plugin_id_t id UNUSED, struct qemu_plugin_tb *tb)
{
	bool is_high = qemu_plugin_tb_vaddr(tb) >= arch->kernel_start;

	/* What is translated is what the CPU goes to now, and is in the state for. */
	if (state_register ? read_register(state_register) & arch->user_state : !is_high) {
		translate_user(tb);
	} else if (armed && is_high) {
		if (!knows_kernel)
			learn_kernel();
		translate_kernel(tb);
	}
}

static void on_reset(qemu_plugin_id_t id)
{
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_flush_cb(id, on_flush);
}

/* Throw all translated code away: what is translated from now on is instrumented, or no longer. */
static void retranslate(bool arm_now)
{
	armed = arm_now;
	qemu_plugin_reset(plugin_id, on_reset);
}

static bool is_stack(uint64_t address)
{
	uint64_t base = address & ~(arch->stack_bytes - 1);

	for (unsigned int nr = 0; nr < nr_cpus; nr++)
		if (stack_place(&cpus[nr], base)->base == base)
			return true;
	return false;
}

static FILE *open_result(const char *name, const char *mode)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", out_folder, name);
	return fopen(path, mode);
}

static void write_array(FILE *out, const char *name, const uint64_t values[NR_CONTEXTS])
{
	fprintf(out, ",\"%s\":{\"operation\":%lu,\"interrupt\":%lu,\"kthread\":%lu}", name,
		values[CONTEXT_OPERATION], values[CONTEXT_INTERRUPT], values[CONTEXT_KTHREAD]);
}

static int write_summary(const uint64_t stack_accesses[NR_CONTEXTS])
{
	FILE *out = open_result("recording.json", "w");
	uint64_t accesses[NR_CONTEXTS] = { 0 }, instructions[NR_CONTEXTS] = { 0 }, lost = 0, lost_work = 0;
	unsigned int nr_interrupts = 0;
	uint64_t lost_acquisitions = 0, unreleased = 0;
	int failed;

	if (!out)
		return -1;
	for (unsigned int nr = 0; nr < nr_cpus; nr++) {
		lost += cpus[nr].lines.lost;
		for (int context = 0; context < NR_CONTEXTS; context++)
			accesses[context] += cpus[nr].lines.accesses[context];
		lost_work += cpus[nr].work.lost;
		for (int context = 0; context < NR_CONTEXTS; context++)
			instructions[context] += cpus[nr].work.instructions[context];
		lost_acquisitions += cpus[nr].lock_table.lost;
		unreleased += cpus[nr].lock_table.unreleased;
	}
	fprintf(out, "{\"operations\":[");
	for (uint64_t i = 0; i < arm.nr_slots; i++)
		fprintf(out, "%s%lu", i ? "," : "", slots[i].operations);
	for (unsigned int i = 0; i < nr_entries; i++)
		nr_interrupts += entries[i].kind == ENTRY_INTERRUPT;
	fprintf(out, "],\"lost\":%lu,\"entries\":%u", lost, nr_interrupts);
	fprintf(out, ",\"per_cpu_offsets\":[");
	for (unsigned int nr = 0; per_cpu_offsets && nr < nr_cpus; nr++)
		fprintf(out, "%s%lu", nr ? "," : "", per_cpu_offsets[nr]);
	fprintf(out, "]");
	write_array(out, "accesses", accesses);
	write_array(out, "stack_accesses", stack_accesses);
	write_array(out, "instructions", instructions);
	fprintf(out, ",\"lost_instructions\":%lu", lost_work);
	fprintf(out, ",\"lost_acquisitions\":%lu,\"unreleased\":%lu", lost_acquisitions, unreleased);
	fprintf(out, "}\n");
	failed = ferror(out);
	return fclose(out) || failed ? -1 : 0;
}

static int write_table(const char *name, int (*write)(FILE *out))
{
	FILE *out = open_result(name, "w");
	int failed;

	if (!out)
		return -1;
	failed = write(out);
	return fclose(out) || failed ? -1 : 0;
}

static int write_work(FILE *out)
{
	struct work_table *tables[nr_cpus];

	for (unsigned int nr = 0; nr < nr_cpus; nr++)
		tables[nr] = &cpus[nr].work;
	return work_write(out, tables, nr_cpus);
}

static int write_locks(FILE *out)
{
	struct lock_table *tables[nr_cpus];

	for (unsigned int nr = 0; nr < nr_cpus; nr++)
		tables[nr] = &cpus[nr].lock_table;
	return locks_write(out, tables, nr_cpus);
}

static void write_results(void)
{
	uint64_t stack_accesses[NR_CONTEXTS] = { 0 };
	FILE *out = open_result("lines.csv", "w");
	int failed;

	if (!out)
		return;
	for (unsigned int nr = 0; nr < nr_cpus; nr++)
		cpus[nr].recording = 0;
	empty_sites();
	for (struct block *block = blocks; block; block = block->next)
		empty_block(block);
	struct line_table tables[nr_cpus];
	for (unsigned int nr = 0; nr < nr_cpus; nr++) {
		lines_settle(&cpus[nr].lines);
		tables[nr] = cpus[nr].lines;
	}
	failed = lines_write_shared(out, tables, nr_cpus, arch->line_bytes, is_stack, stack_accesses) ||
		 write_table("chains.csv", chains_write) || write_table("work.csv", write_work) ||
		 write_table("locks.csv", write_locks) || write_table("allocations.csv", allocations_write) ||
		 write_table("pages.csv", pages_write);
	/* The summary comes last: it says that the rest is whole. */
	if (!fclose(out) && !failed)
		write_summary(stack_accesses);
}

/* A part of /proc/kallsyms, whose lines may be cut anywhere. */
static void mark_symbols(uint64_t address, size_t length)
{
	static FILE *out;

	if (!out)
		out = open_result("kallsyms", "w+");
	if (!out || !read_guest(address, length))
		return;
	fwrite(buffer->data, 1, length, out);
	symbols = out;
}

/* Functions of mm/slub.c from 5.10 to 7.2; what is larger than a slab's objects has no cache. */
static enum entry_kind allocator_kind(const char *name)
{
	static const char *const prefixes[] = { "__kmalloc", "kmalloc_trace", "kmalloc_node_trace", "kmem_cache_alloc" };

	if (strstr(name, ".cold") || strstr(name, "_large"))
		return ENTRY_NONE;
	for (unsigned int i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
		if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
			return strstr(name, "_bulk") ? ENTRY_ALLOCATES_MANY : ENTRY_ALLOCATES;
	return ENTRY_NONE;
}

static void add_entry(uint64_t address, enum entry_kind kind)
{
	if (nr_entries < MAX_ENTRIES)
		entries[nr_entries++] = (struct entry){ address, kind };
}

/* Where every call of a function comes by. */
static uint64_t behind_entry(uint64_t function)
{
	return function + (read_guest(function, ENTRY_BYTES) ? arch->entry_offset(buffer->data) : 0);
}

/*
 * Where a task gives up its CPU because it must, not because it waits: what the scheduler then does is an interrupt's
 * doing, and no part of the operation.
 */
static struct preemption {
	const char *caller, *callee;
	uint64_t start, end; /* of the caller */
	uint64_t target;
} preemptions[] = {
	{ .caller = "exit_to_user_mode_prepare", .callee = "schedule" },
	{ .caller = "exit_to_user_mode_loop", .callee = "schedule" },
	{ .caller = "syscall_exit_to_user_mode", .callee = "schedule" },
	{ .caller = "irqentry_exit_to_user_mode", .callee = "schedule" },
	{ .caller = "irqentry_exit", .callee = "schedule" },
	{ .caller = "syscall_exit_prepare", .callee = "schedule" },
	{ .caller = "interrupt_exit_user_prepare", .callee = "schedule" },
	{ .caller = "interrupt_exit_user_prepare_main", .callee = "schedule" },
	{ .caller = "interrupt_exit_kernel_prepare", .callee = "preempt_schedule_irq" },
	{ .caller = "__cond_resched", .callee = "preempt_schedule_common" },
	{ .caller = "__cond_resched", .callee = "__schedule" },
	{ .caller = "_cond_resched", .callee = "preempt_schedule_common" },
	{ .caller = "_cond_resched", .callee = "__schedule" },
	{ .caller = "preempt_schedule_thunk", .callee = "preempt_schedule" },
	{ .caller = "preempt_schedule_notrace_thunk", .callee = "preempt_schedule_notrace" },
};

static void note_preemption(const char *name, uint64_t address)
{
	for (unsigned int i = 0; i < sizeof(preemptions) / sizeof(*preemptions); i++) {
		struct preemption *preemption = &preemptions[i];

		/* Symbols come in the order of their addresses: the next one ends the caller. */
		if (preemption->start && !preemption->end && address > preemption->start)
			preemption->end = address;
		if (!strcmp(name, preemption->caller))
			preemption->start = address;
		if (!strcmp(name, preemption->callee))
			preemption->target = address;
	}
}

static void add_preemptions(void)
{
	for (unsigned int i = 0; i < sizeof(preemptions) / sizeof(*preemptions); i++) {
		const struct preemption *preemption = &preemptions[i];
		uint64_t size = preemption->end - preemption->start, call, next;

		if (size && preemption->target && size < 1 << 16 && read_guest(preemption->start, size) &&
		    arch->find_call(buffer->data, size, preemption->start, preemption->target, &call, &next)) {
			add_entry(call, ENTRY_PREEMPTED);
			add_entry(next, ENTRY_RESUMED);
		}
	}
}

static void read_per_cpu_offsets(uint64_t address)
{
	size_t size = nr_cpus * sizeof(*per_cpu_offsets);

	per_cpu_offsets = read_guest(address, size) ? malloc(size) : NULL;
	if (per_cpu_offsets)
		memcpy(per_cpu_offsets, buffer->data, size);
}

/*
 * Lines of /proc/kallsyms: an address, a type, a name, perhaps a module. Not before the kernel runs, as its memory
 * cannot be read from user mode on every architecture.
 */
static void learn_kernel(void)
{
	char line[1024], name[512], type;
	uint64_t address;

	knows_kernel = true;
	if (!symbols)
		return;
	rewind(symbols);
	while (fgets(line, sizeof(line), symbols)) {
		const struct lock_function *lock;
		enum entry_kind kind;

		if (sscanf(line, "%lx %c %511s", &address, &type, name) != 3)
			continue;
		if (strchr("tTwW", type))
			add_function(address);
		if (!strcmp(name, "__per_cpu_offset"))
			read_per_cpu_offsets(address);
		note_preemption(name, address);
		lock = lock_function(name);
		if (lock && nr_lock_entries < MAX_LOCK_FUNCTIONS)
			lock_entries[nr_lock_entries++] = (struct lock_entry){ behind_entry(address), lock };
		kind = arch->entry_kind(name);
		if (kind == ENTRY_NONE && strchr("tT", type))
			kind = allocator_kind(name);
		if (kind == ENTRY_TRACER && nr_tracers < MAX_TRACERS)
			tracers[nr_tracers++] = address;
		else if (kind != ENTRY_NONE)
			add_entry(behind_entry(address), kind);
	}
	fflush(symbols);
	add_preemptions();
	qsort(entries, nr_entries, sizeof(*entries), compare_entries);
	qsort(lock_entries, nr_lock_entries, sizeof(*lock_entries), compare_lock_entries);
	qsort(functions, nr_functions, sizeof(*functions), compare_addresses);
}

static void mark_arm(uint64_t address, size_t length)
{
	if (armed || length != sizeof(arm) || !read_guest(address, sizeof(arm)))
		return;
	memcpy(&arm, buffer->data, sizeof(arm));
	if (!arm.slot_bytes || arm.nr_slots > 1 << 20)
		return;
	slots = calloc(arm.nr_slots, sizeof(*slots));
	for (unsigned int i = 0; i < nr_cpus; i++) {
		lines_init(&cpus[i].lines, TABLES_BYTES / nr_cpus);
		cpus[i].stack = &cpus[i].stacks[0];
	}
	agent_stack = ~0ull;
	retranslate(true);
}

static void on_mark(unsigned int nr UNUSED, void *userdata UNUSED)
{
	uint64_t mark, memory, length;

	if (read_register(mark_registers[0]) != RECORDER_MAGIC)
		return;
	mark = read_register(mark_registers[1]);
	memory = read_register(mark_registers[2]);
	length = read_register(mark_registers[3]);
	if (mark == MARK_SYMBOLS && length <= 1 << 20) {
		mark_symbols(memory, length);
	} else if (mark == MARK_ARM) {
		mark_arm(memory, length);
	} else if (mark == MARK_AGENT && armed) {
		enter_user_mode(this_cpu());
		this_cpu()->entering_agent = true;
	} else if (mark == MARK_DISARM && armed) {
		write_results();
		retranslate(false);
	}
}

static void on_cpu_init(qemu_plugin_id_t id UNUSED, unsigned int nr UNUSED)
{
	if (registers)
		return;
	registers = qemu_plugin_get_registers();
	for (int i = 0; i < 4; i++)
		mark_registers[i] = find_register(arch->mark_registers[i]);
	for (int i = 0; i < 3; i++)
		call_registers[i] = find_register(arch->call_registers[i]);
	stack_register = find_register(arch->stack_register);
	condition_register = find_register(arch->condition_register);
	state_register = find_register(arch->state_register);
	saved_state_register = find_register(arch->saved_state_register);
}

static int parse_argument(const char *argument)
{
	if (!strncmp(argument, "out=", 4)) {
		out_folder = strdup(argument + 4);
		return 0;
	}
	fprintf(stderr, "recorder: cannot use '%s'\n", argument);
	return -1;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	static const struct arch *const archs[] = { &arch_x86_64, &arch_ppc64le };

	for (unsigned int i = 0; i < sizeof(archs) / sizeof(*archs); i++)
		if (!strcmp(info->target_name, archs[i]->target))
			arch = archs[i];
	if (!info->system_emulation || !arch) {
		fprintf(stderr, "recorder: no support for %s\n", info->target_name);
		return -1;
	}
	plugin_id = id;
	for (int i = 0; i < argc; i++)
		if (parse_argument(argv[i]))
			return -1;
	if (!out_folder) {
		fprintf(stderr, "recorder: out=FOLDER is missing\n");
		return -1;
	}
	nr_cpus = info->system.max_vcpus;
	cpus = calloc(nr_cpus, sizeof(*cpus));
	buffer = g_byte_array_new();
	if (!cpus)
		return -1;
	qemu_plugin_register_vcpu_init_cb(id, on_cpu_init);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_flush_cb(id, on_flush);
	return 0;
}
