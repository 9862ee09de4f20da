// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/accesses.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "arch/guest.h"
#include "counts/insns.h"
#include "cpu/cpu.h"
#include "lib/attributes.h"
#include "lib/xalloc.h"
#include "memory/exclusives.h"
#include "memory/pages.h"
#include "protocol/request.h"
#include "trace/trace_events.h"

/*
 * An instruction that fills memory: one access per line. The emulator stores element by element, or without callbacks. But
 * the registers tell the range, and no fault ends a fill of kernel memory early, so elements need not be seen. It lives
 * until code is thrown away.
 */
struct fill {
	uint32_t insn; /* access_insn() */
	struct fill_form form;
	struct qemu_plugin_register *start[2], *count;
	struct fill *next;
};

static struct fill *fills;

/* The physical address of an access to user memory, by which its line is counted; 0: not recorded. */
static NOINLINE uint64_t recorded_user_address(qemu_plugin_meminfo_t info, uint64_t address)
{
	struct qemu_plugin_hwaddr *hwaddr;
	uint64_t place;

	if (request_is_slot(address))
		return 0;
	hwaddr = qemu_plugin_get_hwaddr(info, address);
	if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr))
		return 0;
	place = qemu_plugin_hwaddr_phys_addr(hwaddr);
	pages_note(place, address);
	return place;
}

/* Accesses to the task's own stack, by whatever pointer, are no conflicts. */
static inline bool is_own_stack(const struct cpu *cpu, uint64_t address)
{
	return stack_base(address) == cpu->contexts.stack->base;
}

/* The address by which the line of an access is counted; 0: not recorded. */
static inline uint64_t recorded_address(const struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t address)
{
	if (!is_recording(cpu))
		return 0;
	if (is_kernel_address(address))
		return is_own_stack(cpu, address) ? 0 : address;
	return request.what & RECORD_USER ? recorded_user_address(info, address) : 0;
}

void *accesses_site(const struct qemu_plugin_insn *insn)
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
	return (struct access){ insn | (place & (LINE_BYTES - 1)), cpu->contexts.stack->calls.chain, kind };
}

static struct effect effect_of(qemu_plugin_meminfo_t info, uint64_t place)
{
	bool store = qemu_plugin_mem_is_store(info);

	return (struct effect){ lines_bytes(place, qemu_plugin_mem_size_shift(info)), !store, store };
}

static void close_lines(struct cpu *cpu)
{
	open_lines_close(&cpu->open_lines, &cpu->lines);
	lines_flush(&cpu->lines);
}

/* Expand what was counted by sequences into counts by instruction, and learn new sequences. */
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
	if (open_lines_add(&cpu->open_lines, &cpu->lines, key, access, effect))
		return;
	forget_sequences();
	if (!open_lines_add(&cpu->open_lines, &cpu->lines, key, access, effect))
		cpu->lines.counts.lost += effect->reads + effect->writes;
}

/* What one instruction did to the bytes from `from` to before `to`, in one line: at most one access. */
static void count_part(struct cpu *cpu, uint64_t key, struct access access, uint64_t from, uint64_t to,
		       struct effect effect)
{
	access.insn |= ACCESS_PART;
	access.meminfo_or_part = (to - from) << 2 | effect.reads << 1 | effect.writes;
	effect.bytes = lines_range(from, to);
	if (!open_lines_expect(&cpu->open_lines, key, &access))
		count(cpu, key, &access, &effect);
}

static void end_string(struct cpu *cpu, struct string_access *string)
{
	const struct access access = { string->insn | (string->from & (LINE_BYTES - 1)), string->chain, 0 };
	bool store = string == &cpu->strings[1], is_new = !string->counted;

	if (string->line)
		count_part(cpu, string->line, access, string->from, string->next,
			   (struct effect){ 0, is_new && !store, is_new && store });
	string->line = 0;
}

static NOINLINE void end_both_strings(struct cpu *cpu)
{
	end_string(cpu, &cpu->strings[0]);
	end_string(cpu, &cpu->strings[1]);
}

static inline void end_strings(struct cpu *cpu)
{
	if (cpu->strings[0].line | cpu->strings[1].line)
		end_both_strings(cpu);
}

void accesses_next_operation(struct cpu *cpu)
{
	end_strings(cpu);
	open_lines_next_operation(&cpu->open_lines);
}

static void count_some(struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t place, unsigned int bytes, uint32_t insn,
		       bool counts)
{
	bool store = qemu_plugin_mem_is_store(info);

	count_part(cpu, lines_key(place, cpu->contexts.context), access_at(cpu, place, insn, 0), place, place + bytes,
		   (struct effect){ 0, counts && !store, counts && store });
}

/*
 * A processor splits an access to two lines into one access per line. They are counted as parts, which accesses_count()
 * never expects. The second line may be in another page, whose physical address in user memory is unrelated. Two halves
 * of one line are two parts of one access.
 */
static void count_split(struct cpu *cpu, qemu_plugin_meminfo_t info, uint64_t address, uint64_t place,
			unsigned int bytes, uint32_t insn)
{
	unsigned int beyond = lines_beyond(place, bytes);
	uint64_t rest = recorded_address(cpu, info, address + bytes - beyond);

	count_some(cpu, info, place, bytes - beyond, insn, true);
	if (rest)
		count_some(cpu, info, rest, beyond, insn, !(rest & (guest.arch->line_bytes - 1)));
}

/* A device's register, such as a clock, belongs to the emulator, and is no cache line. */
static NOINLINE void count_any_access(qemu_plugin_meminfo_t info, uint64_t address, uint32_t insn)
{
	struct cpu *cpu = this_cpu();
	uint64_t place = recorded_address(cpu, info, address);
	unsigned int bytes = 1u << qemu_plugin_mem_size_shift(info);
	struct access access;
	struct effect effect;

	if (!place)
		return;
	end_strings(cpu);
	if (is_kernel_address(place) && guest_is_mmio(info, place))
		return;
	if (lines_beyond(place, bytes)) {
		count_split(cpu, info, address, place, bytes, insn);
		return;
	}
	access = access_at(cpu, place, insn, info);
	effect = effect_of(info, place);
	count(cpu, lines_key(place, cpu->contexts.context), &access, &effect);
}

/*
 * The speed of recording depends on this function most of all. It handles the usual case itself: the access came next in
 * its line's sequence the last time, too. That calls nothing, so nothing is saved on the stack.
 */
void accesses_count(unsigned int nr UNUSED, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
	struct cpu *cpu = cpus.cpu;

	if (cpus.running == current_cpu && is_recording(cpu) && is_kernel_address(address) &&
	    !is_own_stack(cpu, address)) {
		const struct access access = access_at(cpu, address, (uint64_t)site, info);

		if (open_lines_expect(&cpu->open_lines, lines_key(address, cpu->contexts.context), &access)) {
			end_strings(cpu);
			return;
		}
	}
	count_any_access(info, address, (uint64_t)site);
}

/* The same if operations are traced. The upper half of the site is the instruction's trace_events_place(). */
static void on_traced_access(unsigned int nr, qemu_plugin_meminfo_t info, uint64_t address, void *site)
{
	accesses_count(nr, info, address, site);
	if (cpus.cpu->contexts.stack->trace)
		trace_events_access(cpus.cpu, info, address, (uint32_t)(uint64_t)site >> ACCESS_INSN_SHIFT,
				    (uint64_t)site >> 32);
}

/* Whether the instruction accessed this line last: the element belongs to the same access. */
static bool is_at_line(const struct cpu *cpu, const struct string_access *string, uint32_t insn, uint64_t place)
{
	return string->line == lines_key(place, cpu->contexts.context) && string->insn == insn &&
	       string->chain == cpu->contexts.stack->calls.chain;
}

static NOINLINE void begin_string(struct cpu *cpu, struct string_access *string, uint32_t insn,
				  qemu_plugin_meminfo_t info, uint64_t place, unsigned int bytes)
{
	bool counted = is_at_line(cpu, string, insn, place);

	end_string(cpu, string);
	if (is_kernel_address(place) && guest_is_mmio(info, place))
		return;
	*string = (struct string_access){
		.line = lines_key(place, cpu->contexts.context),
		.from = place,
		.insn = insn,
		.chain = cpu->contexts.stack->calls.chain,
		.info = info,
		.size = 1u << qemu_plugin_mem_size_shift(info),
		.counted = counted,
	};
	string->next = place + bytes;
}

/*
 * A processor copies a whole line at once: one access per line. The emulator copies byte by byte. An access is counted
 * when another one begins, so most elements only need to be recognised as the next one, of the same size.
 */
static void count_element(struct cpu *cpu, struct string_access *string, uint32_t insn, qemu_plugin_meminfo_t info,
			  uint64_t place, unsigned int bytes)
{
	if (string->next == place && string->info == info && is_at_line(cpu, string, insn, place))
		string->next = place + bytes;
	else
		begin_string(cpu, string, insn, info, place, bytes);
}

/* An element in two lines. A string may go down: the line where it was last comes first. */
static NOINLINE void split_element(struct cpu *cpu, struct string_access *string, uint32_t insn,
				   qemu_plugin_meminfo_t info, uint64_t address, uint64_t place, unsigned int bytes)
{
	unsigned int beyond = lines_beyond(place, bytes);
	uint64_t rest = recorded_address(cpu, info, address + bytes - beyond);
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
	struct string_access *string = &cpu->strings[store];
	uint64_t place = recorded_address(cpu, info, address);
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

	fill->insn = (uint64_t)accesses_site(insn);
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
		count_part(cpu, lines_key(from, cpu->contexts.context), access_at(cpu, from, insn, 0), from, to,
			   (struct effect){ 0, 0, writes });
	}
}

static struct fill_progress *fill_progress(struct cpu *cpu)
{
	return &cpu->contexts.stack->fills[cpu->contexts.stack->nesting];
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
	if (cpu->contexts.stack->trace)
		trace_events_fill(cpu, fill->insn >> ACCESS_INSN_SHIFT, start, left, !fill->count);
}

static void on_fill_ended(unsigned int nr UNUSED, void *userdata UNUSED)
{
	fill_ended(fill_progress(this_cpu()));
}

void accesses_watch_string(struct qemu_plugin_insn *insn)
{
	qemu_plugin_register_vcpu_mem_cb(insn, on_string_load, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_R,
					 accesses_site(insn));
	qemu_plugin_register_vcpu_mem_cb(insn, on_string_store, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
					 accesses_site(insn));
}

static void on_exclusive_store(unsigned int nr, qemu_plugin_meminfo_t info, uint64_t address, void *userdata)
{
	struct exclusive *exclusive = &this_cpu()->exclusive;
	void *site = (void *)(exclusive->site | ((uint64_t)userdata & (uint64_t)UINT32_MAX << 32));

	if (!exclusives_is_write(exclusive, info))
		return;
	if (request.what & RECORD_TRACE)
		on_traced_access(nr, info, address, site);
	else
		accesses_count(nr, info, address, site);
}

static void watch_access(struct qemu_plugin_insn *insn, enum qemu_plugin_mem_rw accesses, uint32_t traced,
			 enum exclusive_kind exclusive)
{
	qemu_plugin_vcpu_mem_cb_t callback = request.what & RECORD_TRACE ? on_traced_access : accesses_count;

	if (exclusive == EXCLUSIVE_LOAD)
		exclusives_watch_load(insn, accesses_site(insn));
	else if (exclusive == EXCLUSIVE_STORE)
		callback = on_exclusive_store;
	qemu_plugin_register_vcpu_mem_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS, accesses,
					 (void *)((uint64_t)accesses_site(insn) | (uint64_t)traced << 32));
}

void accesses_watch(struct qemu_plugin_insn *insn, enum insn_kind kind, const uint8_t *bytes, size_t size,
		    uint32_t traced)
{
	enum exclusive_kind exclusive = guest.arch->exclusive ? guest.arch->exclusive(bytes, size) : EXCLUSIVE_NONE;

	switch (kind) {
	case INSN_OTHER:
	case INSN_UNSEEN:
		watch_access(insn, QEMU_PLUGIN_MEM_RW, traced, exclusive);
		break;
	case INSN_CALL_BY_MEMORY:
		watch_access(insn, QEMU_PLUGIN_MEM_R, traced, EXCLUSIVE_NONE);
		break;
	case INSN_FILL:
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_fill, QEMU_PLUGIN_CB_R_REGS,
						       new_fill(insn, guest.arch->fill(bytes, size)));
		break;
	case INSN_STRING:
		accesses_watch_string(insn);
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
