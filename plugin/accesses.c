// SPDX-License-Identifier: GPL-2.0-or-later
#include "accesses.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu.h"
#include "guest.h"
#include "insns.h"
#include "operations.h"
#include "pages.h"
#include "trace_events.h"
#include "xalloc.h"

/*
 * An instruction that fills memory, which the emulator does element by element, or out of sight: one access a line.
 * Its registers tell all that it will do, and in the kernel's memory no fault keeps it from that, so there is no need
 * to see every element. It lives until code is thrown away.
 */
struct fill {
	uint32_t insn; /* access_insn() */
	struct fill_form form;
	struct qemu_plugin_register *start[2], *count;
	struct fill *next;
};

static struct fill *fills;

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

static void *site_of(const struct qemu_plugin_insn *insn)
{
	uint32_t number = insns_number(qemu_plugin_insn_vaddr(insn));

	if (number > UINT32_MAX >> ACCESS_INSN_SHIFT) {
		fprintf(stderr, "recorder: %u instructions are more than it has numbers for\n", number);
		abort();
	}
	return (void *)(uint64_t)access_insn(number);
}

static inline struct access access_at(const struct cpu *cpu, uint64_t place, uint32_t insn, uint32_t kind)
{
	return (struct access){ insn | (place & (LINE_BYTES - 1)), cpu->stack->calls.chain, kind };
}

static struct effect effect_of(qemu_plugin_meminfo_t info, uint64_t place)
{
	bool store = qemu_plugin_mem_is_store(info);

	return (struct effect){ lines_bytes(place, qemu_plugin_mem_size_shift(info)), !store, store };
}

static void close_lines(struct cpu *cpu)
{
	open_lines_close(&cpu->open, &cpu->lines);
	lines_flush(&cpu->lines);
}

/* What was counted by sequences is counted by instructions from now on, and new sequences are learnt. */
static void forget_sequences(void)
{
	for_each_cpu(cpu) {
		close_lines(cpu);
		lines_expand(&cpu->lines);
	}
	sequences_forget();
}

static NOINLINE void count(struct cpu *cpu, uint64_t key, const struct access *access, const struct effect *effect)
{
	if (open_lines_add(&cpu->open, &cpu->lines, key, access, effect))
		return;
	forget_sequences();
	if (!open_lines_add(&cpu->open, &cpu->lines, key, access, effect))
		cpu->lines.counts.lost += effect->reads + effect->writes;
}

/* What one instruction did to all that lies there, within a line: at most one access. */
static void count_part(struct cpu *cpu, uint64_t key, struct access access, uint64_t from, uint64_t to,
		       struct effect effect)
{
	access.insn |= ACCESS_PART;
	access.kind = (to - from) << 2 | effect.reads << 1 | effect.writes;
	effect.bytes = lines_range(from, to);
	if (!open_lines_expect(&cpu->open, key, &access))
		count(cpu, key, &access, &effect);
}

static void end_string(struct cpu *cpu, struct string_access *string)
{
	const struct access access = { string->insn | (string->from & (LINE_BYTES - 1)), string->chain, 0 };
	bool store = string == &cpu->string[1], is_new = !string->counted;

	if (string->line)
		count_part(cpu, string->line, access, string->from, string->next,
			   (struct effect){ 0, is_new && !store, is_new && store });
	string->line = 0;
}

static NOINLINE void end_both_strings(struct cpu *cpu)
{
	end_string(cpu, &cpu->string[0]);
	end_string(cpu, &cpu->string[1]);
}

static inline void end_strings(struct cpu *cpu)
{
	if (cpu->string[0].line | cpu->string[1].line)
		end_both_strings(cpu);
}

void accesses_end_strings(struct cpu *cpu)
{
	end_strings(cpu);
}

static void count_some(struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t place, unsigned int bytes, uint32_t insn)
{
	bool store = qemu_plugin_mem_is_store(info);

	count_part(cpu, lines_key(place, cpu->context), access_at(cpu, place, insn, 0), place, place + bytes,
		   (struct effect){ 0, !store, store });
}

/*
 * A processor splits what lies in two lines into an access to each. What on_access() expects is never one: only parts
 * are counted here. The second line may be in another page, which in user memory lies anywhere.
 */
static void count_split(struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t address, uint64_t place,
			unsigned int bytes, uint32_t insn)
{
	unsigned int beyond = lines_beyond(place, bytes);
	uint64_t rest = find_place(cpu, info, address + bytes - beyond);

	count_some(cpu, info, place, bytes - beyond, insn);
	if (rest)
		count_some(cpu, info, rest, beyond, insn);
}

/* A device register, such as a clock's, is the emulator's, and no line. */
static NOINLINE void count_any_access(qemu_plugin_meminfo_t info, uint64_t address, uint32_t insn)
{
	struct cpu *cpu = this_cpu();
	uint64_t place = find_place(cpu, info, address);
	unsigned int bytes = 1u << qemu_plugin_mem_size_shift(info);
	struct access access;
	struct effect effect;

	if (!place)
		return;
	end_strings(cpu);
	if (is_kernel_address(place) && accesses_is_device(info, place))
		return;
	if (lines_beyond(place, bytes)) {
		count_split(cpu, info, address, place, bytes, insn);
		return;
	}
	access = access_at(cpu, place, insn, info);
	effect = effect_of(info, place);
	count(cpu, lines_key(place, cpu->context), &access, &effect);
}

/*
 * How fast recording is depends on this function most of all. What it does itself is the usual case, that the access is
 * what came next the last time, too, for which nothing has to be called: so it keeps nothing on the stack.
 */
static void on_access(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
	struct cpu *cpu = cpus.cpu;

	if (cpus.running == current_cpu && is_recording(cpu) && is_kernel_address(address) &&
	    !is_own_stack(cpu, address)) {
		const struct access access = access_at(cpu, address, (uint64_t)site, info);

		if (open_lines_expect(&cpu->open, lines_key(address, cpu->context), &access)) {
			end_strings(cpu);
			return;
		}
	}
	count_any_access(info, address, (uint64_t)site);
}

/* The same where operations are traced. What a trace wants to know of the instruction is the site's upper half. */
static void on_traced_access(unsigned int nr, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
	on_access(nr, info, address, site);
	if (cpus.cpu->stack->trace)
		trace_events_access(cpus.cpu, info, address, (uint32_t)(uint64_t)site >> ACCESS_INSN_SHIFT,
				    (uint64_t)site >> 32);
}

static void on_user_access(unsigned int nr, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
	if (qemu_plugin_mem_is_store(info))
		operations_stored(info, address);
	on_access(nr, info, address, site);
}

/* Whether the instruction was at this line last: what it does there is part of the same access. */
static bool is_at_line(const struct cpu *cpu, const struct string_access *string, uint32_t insn, uint64_t place)
{
	return string->line == lines_key(place, cpu->context) && string->insn == insn &&
	       string->chain == cpu->stack->calls.chain;
}

static NOINLINE void begin_string(struct cpu *cpu, struct string_access *string, uint32_t insn,
				  qemu_plugin_meminfo_t info, uint64_t place, unsigned int bytes)
{
	bool counted = is_at_line(cpu, string, insn, place);

	end_string(cpu, string);
	if (is_kernel_address(place) && accesses_is_device(info, place))
		return;
	*string = (struct string_access){
		.line = lines_key(place, cpu->context),
		.from = place,
		.insn = insn,
		.chain = cpu->stack->calls.chain,
		.info = info,
		.size = 1u << qemu_plugin_mem_size_shift(info),
		.counted = counted,
	};
	string->next = place + bytes;
}

/*
 * A processor copies a whole line at once, where the emulator does it byte by byte: one access a line. It is counted
 * when another one begins: of most elements there is only to see that they are the next ones, of the same size.
 */
static void count_element(struct cpu *cpu, struct string_access *string, uint32_t insn, qemu_plugin_meminfo_t info,
			  uint64_t place, unsigned int bytes)
{
	if (string->next == place && string->info == info && is_at_line(cpu, string, insn, place))
		string->next = place + bytes;
	else
		begin_string(cpu, string, insn, info, place, bytes);
}

/* An element in two lines. First comes the line that the string is at: it may go down. */
static NOINLINE void split_element(struct cpu *cpu, struct string_access *string, uint32_t insn,
				   qemu_plugin_meminfo_t info, uint64_t address, uint64_t place, unsigned int bytes)
{
	unsigned int beyond = lines_beyond(place, bytes);
	uint64_t rest = find_place(cpu, info, address + bytes - beyond);
	bool goes_down = rest && is_at_line(cpu, string, insn, rest);

	if (goes_down)
		count_element(cpu, string, insn, info, rest, beyond);
	count_element(cpu, string, insn, info, place, bytes - beyond);
	if (rest && !goes_down)
		count_element(cpu, string, insn, info, rest, beyond);
}

static void on_string_access(uint32_t insn, qemu_plugin_meminfo_t info, uint64_t address, bool store)
{
	struct cpu *cpu = this_cpu();
	struct string_access *string = &cpu->string[store];
	uint64_t place = find_place(cpu, info, address);
	unsigned int bytes = string->info == info && string->size ? string->size :
								    1u << qemu_plugin_mem_size_shift(info);

	if (!place)
		return;
	if (lines_beyond(place, bytes))
		split_element(cpu, string, insn, info, address, place, bytes);
	else
		count_element(cpu, string, insn, info, place, bytes);
}

static void on_string_load(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	on_string_access((uint64_t)userdata, info, address, false);
}

static void on_string_store(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	on_string_access((uint64_t)userdata, info, address, true);
}

static struct fill *new_fill(const struct qemu_plugin_insn *insn, struct fill_form form)
{
	struct fill *fill = xcalloc(1, sizeof(*fill));

	fill->insn = (uint64_t)site_of(insn);
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

static void count_fill(struct cpu *cpu, uint32_t insn, uint64_t start, uint64_t end)
{
	uint64_t next;

	if (!is_recording(cpu))
		return;
	end_strings(cpu);
	for (uint64_t from = start; from < end; from = next) {
		bool writes = from == start || !(from & (guest.arch->line_bytes - 1));
		uint64_t to;

		next = (from & ~(uint64_t)(LINE_BYTES - 1)) + LINE_BYTES;
		to = next < end ? next : end;
		if (!is_kernel_address(from) || is_own_stack(cpu, from))
			continue;
		count_part(cpu, lines_key(from, cpu->context), access_at(cpu, from, insn, 0), from, to,
			   (struct effect){ 0, 0, writes });
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
	if (fill_begins(fill_progress(cpu), insns_pc(fill->insn >> ACCESS_INSN_SHIFT), start + left, left))
		return;
	count_fill(cpu, fill->insn, start, start + left);
	if (cpu->stack->trace)
		trace_events_fill(cpu, fill->insn >> ACCESS_INSN_SHIFT, start, left);
}

static void on_fill_ended(unsigned int nr UNUSED, void *userdata UNUSED)
{
	fill_ended(fill_progress(this_cpu()));
}

static void watch_string(struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_mem_cb(insn, on_string_load, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R,
					 site_of(insn));
	qemu_plugin_register_vcpu_mem_cb(insn, on_string_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
					 site_of(insn));
}

static void watch_access(struct qemu_plugin_insn *insn, enum qemu_plugin_mem_rw accesses, uint32_t traced)
{
	bool is_traced = arm.what & RECORD_TRACE;

	qemu_plugin_register_vcpu_mem_cb(insn, is_traced ? on_traced_access : on_access, QEMU_PLUGIN_CB_NO_REGS, accesses,
					 (void *)((uint64_t)site_of(insn) | (uint64_t)traced << 32));
}

void accesses_watch(struct qemu_plugin_insn *insn, enum insn_kind kind, const uint8_t *bytes, size_t size,
		    uint32_t traced)
{
	switch (kind) {
	case INSN_OTHER:
		watch_access(insn, QEMU_PLUGIN_MEM_RW, traced);
		break;
	case INSN_CALL_BY_MEMORY:
		watch_access(insn, QEMU_PLUGIN_MEM_R, traced);
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
						 site_of(insn));
}

void accesses_flush(void)
{
	for_each_cpu(cpu) {
		end_strings(cpu);
		close_lines(cpu);
	}
}

void accesses_free(void)
{
	while (fills) {
		struct fill *next = fills->next;

		free(fills);
		fills = next;
	}
}
