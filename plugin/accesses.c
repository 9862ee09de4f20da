// SPDX-License-Identifier: GPL-2.0-or-later
#include "accesses.h"

#include <stdbool.h>
#include <stdlib.h>

#include "cpu.h"
#include "guest.h"
#include "insns.h"
#include "operations.h"
#include "pages.h"
#include "trace_events.h"
#include "xalloc.h"

/* Not a power of two: what an instruction did on several CPUs does not lie in one place of the host's caches. */
#define NR_SITES 5000
#define FIRST_COUNTS 1024

/*
 * Instructions that access memory, in the order of translation, which is nearly that in which they are used; and of each,
 * on each CPU, what it did to the line that it accessed last there. Most instructions access the line that they accessed
 * before, and finding a line in a CPU's table costs most of all: only a change of line goes to the table. An instruction
 * is known by what it did on the first CPU. They live until code is thrown away.
 */
static struct sites {
	struct line_count *last; /* NR_SITES of each CPU; line 0: nothing yet */
	unsigned int used;
	struct sites *next;
} *sites;

/*
 * An instruction that fills memory, which the emulator does element by element, or out of sight: one access a line.
 * Its registers tell all that it will do, and in the kernel's memory no fault keeps it from that, so there is no need
 * to see every element. It lives as long as its site.
 */
struct fill {
	struct line_count *site;
	struct fill_form form;
	struct qemu_plugin_register *start[2], *count;
	struct fill *next;
};

static struct fill *fills;

static struct line_count *new_site(const struct qemu_plugin_insn *insn)
{
	struct line_count *site;

	if (!sites || sites->used == NR_SITES) {
		struct sites *more = xcalloc(1, sizeof(*more));

		more->last = xcalloc((size_t)cpus.nr * NR_SITES, sizeof(*more->last));
		more->next = sites;
		sites = more;
	}
	site = &sites->last[sites->used++];
	site->insn = insns_number(qemu_plugin_insn_vaddr(insn));
	return site;
}

/* What the instruction did last on that CPU. */
static inline struct line_count *last_on(const struct cpu *cpu, struct line_count *site)
{
	return site + (size_t)cpu->nr * NR_SITES;
}

static void flush(struct cpu *cpu)
{
	for (unsigned int i = 0; i < cpu->last.nr; i++) {
		struct line_count *last = cpu->last.counts[i];

		lines_add(&cpu->lines, last);
		*last = (struct line_count){ .insn = last->insn };
	}
	cpu->last.nr = 0;
}

/* By which address the line of a recorded access to user memory is known: the physical one; 0 if it is not recorded. */
static NOINLINE uint64_t user_place(qemu_plugin_meminfo_t info, uint64_t address)
{
	struct qemu_plugin_hwaddr *hwaddr;
	uint64_t place;

	if (is_operations_slot(address))
		return 0;
	hwaddr = qemu_plugin_get_hwaddr(info, address);
	if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr))
		return 0;
	place = qemu_plugin_hwaddr_phys_addr(hwaddr);
	pages_note(place, address);
	return place;
}

/* The task's own stack, wherever a pointer to it came from, is no conflict. */
static inline bool is_own_stack(const struct cpu *cpu, uint64_t address)
{
	return stack_base(address) == cpu->stack->base;
}

/* By which address the line of an access is known; 0 if it is not recorded. */
static inline uint64_t find_place(const struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t address)
{
	if (!is_recording(cpu))
		return 0;
	if (is_kernel_address(address))
		return is_own_stack(cpu, address) ? 0 : address;
	return arm.what & RECORD_USER ? user_place(info, address) : 0;
}

bool accesses_is_device(qemu_plugin_meminfo_t info, uint64_t address)
{
	struct qemu_plugin_hwaddr *hwaddr;

	/* Most of what the kernel accesses, and to ask takes longer than to count. */
	if (is_kernel_memory(address))
		return false;
	hwaddr = qemu_plugin_get_hwaddr(info, address);
	return hwaddr && qemu_plugin_hwaddr_is_io(hwaddr);
}

/* What QEMU says of an access: there are few kinds, and to ask takes longer than to count. */
struct access_kind {
	qemu_plugin_meminfo_t info;
	bool store;
	uint64_t bytes; /* of line_count, at the line's start; 0: not asked yet */
};

static struct access_kind kinds[256];

static NOINLINE const struct access_kind *ask_kind(struct access_kind *kind, qemu_plugin_meminfo_t info)
{
	*kind = (struct access_kind){ info, qemu_plugin_mem_is_store(info),
				      lines_bytes(0, qemu_plugin_mem_size_shift(info)) };
	return kind;
}

static inline struct access_kind *kind_place(qemu_plugin_meminfo_t info)
{
	/* By Fibonacci hashing: kinds differ in few bits, and two in one place would be asked for in turn. */
	return &kinds[info * 0x9e3779b1u >> 24];
}

static inline bool is_kind(const struct access_kind *kind, qemu_plugin_meminfo_t info)
{
	return kind->info == info && kind->bytes;
}

static const struct access_kind *find_kind(qemu_plugin_meminfo_t info)
{
	struct access_kind *kind = kind_place(info);

	return is_kind(kind, info) ? kind : ask_kind(kind, info);
}

/* Whether the instruction's last access on this CPU was to the same line, by the same chain. */
static inline bool is_same_line(const struct line_count *last, const struct cpu *cpu, uint64_t address)
{
	return last->line == lines_key(address, cpu->context) && last->chain == cpu->stack->calls.chain;
}

static void remember(struct cpu *cpu, struct line_count *last)
{
	struct last_counts *all = &cpu->last;

	if (all->nr == all->room) {
		all->room = all->room ? all->room * 2 : FIRST_COUNTS;
		all->counts = xrealloc(all->counts, all->room * sizeof(*all->counts));
	}
	all->counts[all->nr++] = last;
}

static void change_line(struct cpu *cpu, const struct line_count *site, struct line_count *last, uint64_t address)
{
	if (last->line)
		lines_add(&cpu->lines, last);
	else
		remember(cpu, last);
	*last = (struct line_count){
		.line = lines_key(address, cpu->context),
		.insn = site->insn,
		.chain = cpu->stack->calls.chain,
	};
}

static inline void add_access(struct line_count *last, const struct access_kind *kind, uint64_t place)
{
	last->bytes |= kind->bytes << (place & (LINE_BYTES - 1));
	if (kind->store)
		last->writes++;
	else
		last->reads++;
}

/*
 * `place` is the address by which the line is known. A device register, such as a clock's, is the emulator's, and no
 * line.
 */
static void count_access(struct cpu *cpu, struct line_count *site, qemu_plugin_meminfo_t info, uint64_t place)
{
	struct line_count *last = last_on(cpu, site);

	if (!is_same_line(last, cpu, place)) {
		if (is_kernel_address(place) && accesses_is_device(info, place))
			return;
		change_line(cpu, site, last, place);
	}
	add_access(last, find_kind(info), place);
}

static NOINLINE void count_any_access(qemu_plugin_meminfo_t info, uint64_t address, struct line_count *site)
{
	struct cpu *cpu = this_cpu();
	uint64_t place = find_place(cpu, info, address);

	if (!place)
		return;
	cpu->string[0] = cpu->string[1] = NULL;
	count_access(cpu, site, info, place);
}

/*
 * How fast recording is depends on this function most of all. What it does itself is the usual case, one more access to
 * the same line of the kernel's, for which nothing has to be called: so it keeps nothing on the stack.
 */
static void on_access(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
	struct cpu *cpu = cpus.cpu;

	if (cpus.running == current_cpu && is_recording(cpu) && is_kernel_address(address) &&
	    !is_own_stack(cpu, address)) {
		const struct access_kind *kind = kind_place(info);
		struct line_count *last = last_on(cpu, site);

		if (is_same_line(last, cpu, address) && is_kind(kind, info)) {
			cpu->string[0] = cpu->string[1] = NULL;
			add_access(last, kind, address);
			return;
		}
	}
	count_any_access(info, address, site);
}

static void on_user_access(unsigned int nr, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
	if (qemu_plugin_mem_is_store(info))
		operations_stored(info, address);
	on_access(nr, info, address, site);
}

/* A processor copies a whole line at once, where the emulator does it byte by byte: one access a line. */
static void on_string_access(struct line_count *site, qemu_plugin_meminfo_t info, uint64_t address, bool store)
{
	struct cpu *cpu = this_cpu();
	struct line_count *last = last_on(cpu, site);
	uint64_t place = find_place(cpu, info, address);

	if (!place)
		return;
	if (cpu->string[store] == site && is_same_line(last, cpu, place)) {
		last->bytes |= find_kind(info)->bytes << (place & (LINE_BYTES - 1));
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

static struct fill *new_fill(const struct qemu_plugin_insn *insn, struct fill_form form)
{
	struct fill *fill = xcalloc(1, sizeof(*fill));

	fill->site = new_site(insn);
	fill->form = form;
	fill->start[0] = guest_register(form.start[0]);
	fill->start[1] = guest_register(form.start[1]);
	fill->count = guest_register(form.count);
	fill->next = fills;
	return fills = fill;
}

static uint64_t fill_start(const struct fill *fill)
{
	uint64_t start = guest_read_register(fill->start[0]);

	if (fill->start[1])
		start += guest_read_register(fill->start[1]);
	return fill->form.aligned ? start & ~(uint64_t)(fill->form.element - 1) : start;
}

static void count_fill(struct cpu *cpu, struct line_count *site, uint64_t start, uint64_t end)
{
	struct line_count *last = last_on(cpu, site);
	uint64_t next;

	if (!is_recording(cpu))
		return;
	cpu->string[0] = cpu->string[1] = NULL;
	for (uint64_t from = start; from < end; from = next) {
		next = (from & ~(uint64_t)(LINE_BYTES - 1)) + LINE_BYTES;
		if (!is_kernel_address(from) || is_own_stack(cpu, from))
			continue;
		if (!is_same_line(last, cpu, from))
			change_line(cpu, site, last, from);
		last->bytes |= lines_range(from, next < end ? next : end);
		last->writes += from == start || !(from & (guest.arch->line_bytes - 1));
	}
}

static struct fill_progress *fill_progress(struct cpu *cpu)
{
	return &cpu->stack->fills[cpu->stack->nesting];
}

static void on_fill(unsigned int nr UNUSED, void *userdata)
{
	struct fill *fill = userdata;
	struct cpu *cpu = this_cpu();
	uint64_t start, left;

	if (!cpu->recording)
		return;
	start = fill_start(fill);
	left = (fill->count ? guest_read_register(fill->count) : 1) * fill->form.element;
	if (fill_begins(fill_progress(cpu), insns_pc(fill->site->insn), start + left, left))
		return;
	count_fill(cpu, fill->site, start, start + left);
	if (cpu->stack->trace)
		trace_events_fill(cpu, fill->site->insn, start, left);
}

static void on_fill_ended(unsigned int nr UNUSED, void *userdata UNUSED)
{
	fill_ended(fill_progress(this_cpu()));
}

static void watch_string(struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_mem_cb(insn, on_string_load, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R,
					 new_site(insn));
	qemu_plugin_register_vcpu_mem_cb(insn, on_string_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
					 new_site(insn));
}

void accesses_watch(struct qemu_plugin_insn *insn, enum insn_kind kind, const uint8_t *bytes, size_t size)
{
	switch (kind) {
	case INSN_OTHER:
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
						 new_site(insn));
		break;
	case INSN_CALL_BY_MEMORY:
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R,
						 new_site(insn));
		break;
	case INSN_FILL:
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_fill, QEMU_PLUGIN_CB_R_REGS,
						       new_fill(insn, guest.arch->fill(bytes, size)));
		break;
	case INSN_STRING:
		watch_string(insn);
		break;
	default:
		break;
	}
}

void accesses_watch_next(struct qemu_plugin_insn *next, const uint8_t *before, size_t size)
{
	if (guest.arch->may_be_fill && guest.arch->may_be_fill(before, size))
		qemu_plugin_register_vcpu_insn_exec_cb(next, on_fill_ended, QEMU_PLUGIN_CB_NO_REGS, NULL);
}

/* All memory, the stack too: others may have a pointer to what lies there. */
void accesses_watch_user(struct qemu_plugin_insn *insn, enum insn_kind kind)
{
	/* A page fault may end a fill early in user memory: it is counted as it goes on. */
	if (kind == INSN_STRING || kind == INSN_FILL)
		watch_string(insn);
	else
		qemu_plugin_register_vcpu_mem_cb(insn, on_user_access, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
						 new_site(insn));
}

void accesses_flush(void)
{
	for_each_cpu(cpu) {
		flush(cpu);
		cpu->string[0] = cpu->string[1] = NULL;
	}
}

void accesses_free(void)
{
	accesses_flush();
	while (sites) {
		struct sites *next = sites->next;

		free(sites->last);
		free(sites);
		sites = next;
	}
	while (fills) {
		struct fill *next = fills->next;

		free(fills);
		fills = next;
	}
}
