// SPDX-License-Identifier: GPL-2.0-or-later
/* Instruction formats: Intel SDM volume 2, chapter 2 and appendix A. */
#include <string.h>

#include "arch/arch.h"
#include "lib/names.h"

static bool is_mark(const uint8_t *bytes, size_t size)
{
	return size == 3 && !memcmp(bytes, "\x66\x87\xc9", 3);
}

/* One-byte opcodes followed by a ModRM byte, a bit each. */
static const uint32_t one_byte_modrm[8] = {
	0x0f0f0f0f, 0x0f0f0f0f, 0x00000000, 0x00000a08, 0x0000ffff, 0x00000000, 0xff0f00c3, 0xc0c00000,
};

static bool has_modrm(int map, uint8_t opcode)
{
	switch (map) {
	case 1:
		return one_byte_modrm[opcode >> 5] >> (opcode & 31) & 1;
	case 2:
		return !((opcode >= 0x04 && opcode <= 0x0c) || opcode == 0x0e ||
			 (opcode >= 0x30 && opcode <= 0x37) || opcode == 0x77 ||
			 (opcode >= 0x80 && opcode <= 0x8f) || (opcode & 0xf6) == 0xa0 || opcode == 0xaa ||
			 (opcode >= 0xc8 && opcode <= 0xcf));
	default:
		return true;
	}
}

struct insn {
	int map;	 /* 1: one-byte opcodes, 2: 0f, 3: 0f 38 and 0f 3a */
	uint8_t opcode;
	uint8_t rex;
	bool segment;	 /* addressed through fs or gs */
	bool repeats;
	bool locked;
	bool word;	 /* 16 bits wide, where REX does not say otherwise */
	const uint8_t *modrm, *end;
};

static bool decode(struct insn *insn, const uint8_t *at, size_t size)
{
	*insn = (struct insn){ .map = 1, .end = at + size };
	for (; at < insn->end; at++) {
		if (*at == 0x64 || *at == 0x65)
			insn->segment = true;
		else if (*at == 0xf2 || *at == 0xf3)
			insn->repeats = true;
		else if (*at == 0x66)
			insn->word = true;
		else if (*at == 0xf0)
			insn->locked = true;
		else if (*at != 0x67 && *at != 0x2e && *at != 0x36 && *at != 0x3e && *at != 0x26)
			break;
	}
	if (at < insn->end && (*at & 0xf0) == 0x40)
		insn->rex = *at++;
	if (at < insn->end && *at == 0x0f) {
		insn->map = 2;
		at++;
		if (at < insn->end && (*at == 0x38 || *at == 0x3a)) {
			insn->map = 3;
			at++;
		}
	}
	if (at >= insn->end)
		return false;
	insn->opcode = *at++;
	insn->modrm = at;
	return true;
}

/* (%rsp), disp(%rsp): ModRM asks for a SIB byte whose base is rsp; with REX.B it would be r12. */
static bool is_stack_relative(const struct insn *insn)
{
	const uint8_t *modrm = insn->modrm;

	return !insn->segment && has_modrm(insn->map, insn->opcode) && modrm + 1 < insn->end &&
	       (*modrm >> 6) != 3 && (*modrm & 7) == 4 && (modrm[1] & 7) == 4 && !(insn->rex & 1);
}

static enum insn_kind classify(const uint8_t *bytes, size_t size)
{
	struct insn insn;
	uint8_t opcode, reg;

	if (!decode(&insn, bytes, size))
		return INSN_OTHER;
	opcode = insn.opcode;
	reg = insn.modrm < insn.end ? *insn.modrm >> 3 & 7 : 0;
	if (insn.map == 1) {
		if (opcode == 0xe8)
			return INSN_CALL;
		if (opcode == 0xc2 || opcode == 0xc3)
			return INSN_RETURN;
		if (opcode == 0xcf)
			return INSN_INTERRUPT_RETURN;
		if (opcode == 0xff && reg == 2)
			return *insn.modrm >> 6 == 3 ? INSN_CALL : INSN_CALL_BY_MEMORY;
		if (insn.repeats && (opcode == 0xaa || opcode == 0xab))
			return INSN_FILL;
		if (insn.repeats && ((opcode >= 0xa4 && opcode <= 0xa7) || (opcode >= 0xaa && opcode <= 0xaf)))
			return INSN_STRING;
		if ((opcode >= 0x50 && opcode <= 0x5f) || opcode == 0x68 || opcode == 0x6a || opcode == 0x9c ||
		    opcode == 0x9d || opcode == 0xc9)
			return INSN_STACK;
		if ((opcode == 0xff && reg == 6) || opcode == 0x8f)
			return INSN_OTHER; /* push and pop of memory access both */
	}
	if (insn.map == 2 && (opcode & 0xf6) == 0xa0)
		return INSN_STACK; /* push and pop of fs and gs */
	return is_stack_relative(&insn) ? INSN_STACK : INSN_OTHER;
}

/* rep stos */
static struct fill_form fill(const uint8_t *bytes, size_t size)
{
	struct fill_form form = { .start = { "rdi" }, .count = "rcx", .element = 1 };
	struct insn insn;

	if (decode(&insn, bytes, size) && insn.opcode == 0xab)
		form.element = insn.rex & 8 ? 8 : insn.word ? 2 : 4;
	return form;
}

/* rep stos has no operands: its opcode comes last, and before it one of 16 REX prefixes, or rep itself. */
static bool may_be_fill(const uint8_t *bytes, size_t size)
{
	const uint8_t *end = bytes + size;

	if (size < 3 || (end[-1] & 0xfe) != 0xaa)
		return false;
	return (end[-2] & 0xfe) == 0xf2 || (end[-3] & 0xfe) == 0xf2;
}

/* movb $0, memory: queued_spin_unlock(), queued_write_unlock(); lock xadd and sub: queued_read_unlock() */
static bool may_unlock(const uint8_t *bytes, size_t size)
{
	struct insn insn;

	if (!decode(&insn, bytes, size) || insn.modrm >= insn.end || *insn.modrm >> 6 == 3)
		return false;
	if (insn.map == 1 && insn.opcode == 0xc6)
		return !(*insn.modrm >> 3 & 7) && !insn.end[-1];
	return bytes[0] == 0xf0 && ((insn.map == 2 && insn.opcode == 0xc1) ||
				    (insn.map == 1 && insn.opcode == 0x81 && (*insn.modrm >> 3 & 7) == 5));
}

/* lock, anywhere among the prefixes; and xchg with memory, which needs none */
static bool is_atomic(const uint8_t *bytes, size_t size)
{
	struct insn insn;

	if (!decode(&insn, bytes, size) || insn.modrm >= insn.end || *insn.modrm >> 6 == 3)
		return false;
	return insn.locked || (insn.map == 1 && (insn.opcode & 0xfe) == 0x86);
}

enum {
	RDTSC = 1, RDTSCP, RDRAND, CPUID, LFENCE, MFENCE, IRET, MOV_CR, MOV_CR3, WRMSR, WBINVD, SWAPGS, VERW, ATOMIC,
	REPEATED, INVLPG, INVPCID,
};

static const char *const costly_names[] = {
	[RDTSC] = "rdtsc",
	[RDTSCP] = "rdtscp",
	[RDRAND] = "rdrand", /* and rdseed */
	[CPUID] = "cpuid",
	[LFENCE] = "lfence",
	[MFENCE] = "mfence",
	[IRET] = "iret",
	[MOV_CR] = "mov to cr",
	[MOV_CR3] = "mov to cr3",
	[WRMSR] = "wrmsr",
	[WBINVD] = "wbinvd",
	[SWAPGS] = "swapgs",
	[VERW] = "verw",
	[ATOMIC] = "lock", /* and xchg with memory */
	[REPEATED] = "rep",
	[INVLPG] = "invlpg",
	[INVPCID] = "invpcid",
	NULL,
};

static unsigned int costly_of_0f(const struct insn *insn)
{
	uint8_t modrm = insn->modrm < insn->end ? *insn->modrm : 0, reg = modrm >> 3 & 7;
	bool is_memory = modrm >> 6 != 3;

	switch (insn->opcode) {
	case 0x00:
		return reg == 5 ? VERW : 0;
	case 0x01:
		if (is_memory)
			return reg == 7 ? INVLPG : 0;
		return modrm == 0xf8 ? SWAPGS : modrm == 0xf9 ? RDTSCP : 0;
	case 0x09:
		return WBINVD;
	case 0x22:
		if (insn->rex & 4)
			return 0; /* CR8, the priority of interrupts */
		return reg == 3 ? MOV_CR3 : MOV_CR;
	case 0x30:
		return WRMSR;
	case 0x31:
		return RDTSC;
	case 0xa2:
		return CPUID;
	case 0xae: /* with other prefixes they are no fences */
		if (is_memory || insn->repeats || insn->word)
			return 0;
		return reg == 5 ? LFENCE : reg == 6 ? MFENCE : 0;
	case 0xc7:
		return !is_memory && !insn->repeats && reg >= 6 ? RDRAND : 0;
	default:
		return 0;
	}
}

static unsigned int costly(const uint8_t *bytes, size_t size)
{
	struct insn insn;

	if (!decode(&insn, bytes, size))
		return 0;
	if (is_atomic(bytes, size))
		return ATOMIC;
	if (insn.map == 2)
		return costly_of_0f(&insn);
	if (insn.map == 3)
		return insn.opcode == 0x82 && insn.word ? INVPCID : 0;
	if (insn.opcode == 0xcf)
		return IRET;
	if (insn.repeats && ((insn.opcode >= 0xa4 && insn.opcode <= 0xa7) || (insn.opcode >= 0xaa && insn.opcode <= 0xaf)))
		return REPEATED;
	return 0;
}

/* Linux before 5.8: arch/x86/kernel/entry_64.S, arch/x86/entry/entry_64.S */
static enum entry_kind old_entry_kind(const char *symbol, char type)
{
	static const char *const interrupts[] = { "apic_timer_interrupt",    "reschedule_interrupt",
						  "call_function_interrupt", "call_function_single_interrupt",
						  "irq_work_interrupt",	     "irq_move_cleanup_interrupt",
						  "error_interrupt",	     "thermal_interrupt",
						  "threshold_interrupt",     "x86_platform_ipi" };
	static const char *const exceptions[] = { "page_fault",	  "async_page_fault",	  "general_protection",
						  "divide_error", "device_not_available", "invalid_op" };
	size_t length = strlen(symbol);

	/* A label; from 5.8 on a function, which asm_common_interrupt calls. */
	if (type == 't' && !strcmp(symbol, "common_interrupt"))
		return ENTRY_OLD_INTERRUPT;
	if (type != 'T')
		return ENTRY_NONE;
	if (IS_ONE_OF(symbol, length, interrupts))
		return ENTRY_OLD_INTERRUPT;
	return IS_ONE_OF(symbol, length, exceptions) ? ENTRY_OLD_EXCEPTION : ENTRY_NONE;
}

/* arch/x86/include/asm/idtentry.h; the exceptions left out run on stacks of their own. */
static enum entry_kind entry_kind(const char *symbol, char type)
{
	static const char *const deferred[] = { TICK_WORK, SOFTIRQS };
	/* The second one before 4.20, with PTI: the first is then in a trampoline that has another address. */
	static const char *const new_task[] = { "ret_from_fork", "ret_from_fork_asm" };
	static const char *const system_calls[] = { "entry_SYSCALL_64", "entry_SYSCALL_64_stage2" };
	static const char *const others[] = { "entry_INT80_compat", "entry_SYSENTER_compat", "entry_SYSCALL_compat",
					      "asm_int80_emulation" };

	if (IS_ONE_OF(symbol, strlen(symbol), deferred))
		return ENTRY_DEFERRED;
	if (IS_ONE_OF(symbol, strlen(symbol), new_task))
		return ENTRY_NEW_TASK;
	if (IS_ONE_OF(symbol, strlen(symbol), system_calls))
		return ENTRY_SYSTEM_CALL;
	if (IS_ONE_OF(symbol, strlen(symbol), others))
		return ENTRY_OTHER_SYSTEM_CALL;
	if (!strcmp(symbol, "__switch_to_asm"))
		return ENTRY_CONTEXT_SWITCH;
	/* Before 4.9 the scheduling task switches stacks itself, and calls this on the next task's stack. */
	if (!strcmp(symbol, "__switch_to"))
		return ENTRY_SWITCHED;
	if (starts_with(symbol, "asm_sysvec_") || starts_with(symbol, "asm_common_interrupt") ||
	    starts_with(symbol, "asm_spurious_"))
		return ENTRY_INTERRUPT;
	if (starts_with(symbol, "asm_exc_") && !strstr(symbol, "nmi") && !strstr(symbol, "debug") &&
	    !strstr(symbol, "double_fault") && !strstr(symbol, "machine_check"))
		return ENTRY_EXCEPTION;
	return old_entry_kind(symbol, type);
}

/* struct pt_regs ends with the words that an entry pushes: rip, cs, rflags, rsp, ss. */
static bool is_user_frame(const uint64_t *end)
{
	/* arch/x86/include/asm/segment.h: __USER32_CS, __USER_CS, __USER_DS */
	return (end[-4] == 0x23 || end[-4] == 0x33) && end[-1] == 0x2b;
}

static bool is_user_entry(const uint64_t words[STACK_TOP_BYTES / 8])
{
	const uint64_t *top = words + STACK_TOP_BYTES / 8;

	return is_user_frame(top) || is_user_frame(top - 2); /* TOP_OF_KERNEL_STACK_PADDING, with CONFIG_X86_FRED */
}

static unsigned int entry_offset(const uint8_t bytes[ENTRY_BYTES])
{
	(void)bytes;
	return 0;
}

static bool find_call(const uint8_t *bytes, size_t size, uint64_t pc, uint64_t callee, uint64_t *call, uint64_t *next)
{
	for (size_t i = 0; i + 5 <= size; i++) {
		int32_t distance;

		memcpy(&distance, bytes + i + 1, sizeof(distance));
		if (bytes[i] == 0xe8 && pc + i + 5 + distance == callee) {
			*call = pc + i;
			*next = pc + i + 5;
			return true;
		}
	}
	return false;
}

const struct arch arch_x86_64 = {
	.target = "x86_64",
	.line_bytes = 64,
	.kernel_start = 0xff00000000000000,
	/* Documentation/arch/x86/x86_64/mm.rst: with four levels of page tables, without ISA devices; the CPU entry area */
	.memory = { { 0xffff888000100000, 0xffffc88000000000 }, { 0xffffffff80000000, 0xffffffffa0000000 } },
	.no_stack_from = 0xfffffe0000000000,
	.no_stack_to = 0xfffffe8000000000,
	.mark_registers = { "rax", "rdi", "rsi", "rdx" },
	.call_registers = { "rax", "rdi", "rcx" },
	.system_call_register = "rax",
	.entry_stack_register = "rsp",
	/*
	 * arch/x86/entry/entry_64.S: an error code or a vector's number may lie below the five words that iret loads,
	 * asm_exc_int3 moves all of it down by six words, and at the stack's top there may be two more
	 * (TOP_OF_KERNEL_STACK_PADDING). What a handler saves first is longer than that.
	 */
	.entry_moves = 64,
	.repeats_register = "eflags",
	.repeat_resumes = 1 << 16, /* RF; Intel SDM volume 3, 18.3.1.1 */
	.is_mark = is_mark,
	.classify = classify,
	.fill = fill,
	.may_be_fill = may_be_fill,
	.may_unlock = may_unlock,
	.is_atomic = is_atomic,
	.costly_names = costly_names,
	.costly = costly,
	.entry_kind = entry_kind,
	.is_user_entry = is_user_entry,
	.entry_offset = entry_offset,
	.find_call = find_call,
};
