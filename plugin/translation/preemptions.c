// SPDX-License-Identifier: GPL-2.0-or-later
#include "translation/preemptions.h"

#include <string.h>

#include "arch/guest.h"
#include "lib/names.h"

#define MAX_CALLER_BYTES (1 << 16)

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
	{ .caller = "do_notify_resume", .callee = "schedule" },
	{ .caller = "interrupt_exit_kernel_prepare", .callee = "preempt_schedule_irq" },
	{ .caller = "__cond_resched", .callee = "preempt_schedule_common" },
	{ .caller = "__cond_resched", .callee = "__schedule" },
	{ .caller = "_cond_resched", .callee = "preempt_schedule_common" },
	{ .caller = "_cond_resched", .callee = "__schedule" },
	{ .caller = "preempt_schedule_thunk", .callee = "preempt_schedule" },
	{ .caller = "preempt_schedule_notrace_thunk", .callee = "preempt_schedule_notrace" },
};

#define NR_PREEMPTIONS (sizeof(preemptions) / sizeof(*preemptions))

void preemptions_note(const char *symbol, uint64_t address)
{
	size_t length = strlen(symbol);

	for (unsigned int i = 0; i < NR_PREEMPTIONS; i++) {
		struct preemption *preemption = &preemptions[i];

		/* The next symbol ends the caller. */
		if (preemption->start && !preemption->end && address > preemption->start)
			preemption->end = address;
		if (is_name(symbol, length, preemption->caller))
			preemption->start = address;
		if (is_name(symbol, length, preemption->callee))
			preemption->target = address;
	}
}

void preemptions_add(void (*add_entry)(uint64_t address, enum entry_kind kind))
{
	for (unsigned int i = 0; i < NR_PREEMPTIONS; i++) {
		const struct preemption *preemption = &preemptions[i];
		uint64_t size = preemption->end - preemption->start, call, next;
		const uint8_t *code;

		if (!preemption->target || !size || size >= MAX_CALLER_BYTES)
			continue;
		code = guest_read_memory(preemption->start, size);
		if (code && guest.arch->find_call(code, size, preemption->start, preemption->target, &call, &next)) {
			add_entry(call, ENTRY_PREEMPTED);
			add_entry(next, ENTRY_RESUMED);
		}
	}
}
