// SPDX-License-Identifier: GPL-2.0-or-later
/* Instruction formats: Arm Architecture Reference Manual for A-profile, C4.1 (A64 instruction set encoding). */
#include <string.h>

#include "arch/arch.h"
#include "lib/names.h"

#define SP 31 /* as a base */

static const char *const registers[31] = {
	"x0",  "x1",  "x2",  "x3",  "x4",  "x5",  "x6",	 "x7",	"x8",  "x9",  "x10", "x11", "x12", "x13", "x14", "x15",
	"x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30",
};

static uint32_t load(const uint8_t *bytes, size_t size)
{
	uint32_t insn = 0;

	memcpy(&insn, bytes, size < sizeof(insn) ? size : sizeof(insn));
	return insn;
}

static bool is(uint32_t insn, uint32_t mask, uint32_t value)
{
	return (insn & mask) == value;
}

/* Rn: the base of what accesses memory, and where a branch through a register goes. */
static unsigned int base_of(uint32_t insn)
{
	return insn >> 5 & 31;
}

/* mov x28,x28: does nothing, and no compiler writes it */
static bool is_mark(const uint8_t *bytes, size_t size)
{
	return load(bytes, size) == 0xaa1c03fc;
}

static bool is_direct_call(uint32_t insn)
{
	return is(insn, 0xfc000000, 0x94000000); /* bl */
}

static int64_t distance(uint32_t insn)
{
	return (int64_t)((int32_t)(insn << 6) >> 6) * 4;
}

/* Branches through a register, with and without authentication of its pointer: C4.1.94. */
static enum insn_kind classify_branch(uint32_t insn)
{
	switch (insn >> 21 & 15) {
	case 1: /* blr */
	case 9:
		return INSN_CALL;
	case 2: /* ret: ftrace returns through another register, to where no call has been */
		return is(insn, 0xffffffff, 0xd65f03c0) || is(insn, 0xfffffbff, 0xd65f0bff) ? INSN_RETURN : INSN_OTHER;
	case 4:
		return INSN_INTERRUPT_RETURN; /* eret */
	default:
		return INSN_OTHER;
	}
}

static bool is_load_or_store(uint32_t insn)
{
	return is(insn, 0x0a000000, 0x08000000) && !is(insn, 0x3b000000, 0x18000000); /* but by the program counter */
}

static enum insn_kind classify(const uint8_t *bytes, size_t size)
{
	uint32_t insn = load(bytes, size);

	/* A call of what follows only asks where it is. */
	if (is_direct_call(insn))
		return distance(insn) == 4 ? INSN_OTHER : INSN_CALL;
	if (is(insn, 0xfe000000, 0xd6000000))
		return classify_branch(insn);
	if (is(insn, 0xffffffe0, 0xd50b7420)) /* dc zva; no code does it to address 0 */
		return (insn & 31) == 31 ? INSN_OTHER : INSN_FILL;
	if (is(insn, 0x3b200c00, 0x19000400)) /* cpy*, set* (FEAT_MOPS): the emulated core has none */
		return INSN_UNSEEN;
	return is_load_or_store(insn) && base_of(insn) == SP ? INSN_STACK : INSN_OTHER;
}

/* DC ZVA sets as many bytes to zero as DCZID_EL0 says: 64 on the emulated core. */
static struct fill_form fill(const uint8_t *bytes, size_t size)
{
	return (struct fill_form){
		.start = { registers[load(bytes, size) & 31] },
		.element = 64,
		.aligned = true,
	};
}

/* stlrb wzr: queued_spin_unlock(), queued_write_unlock() */
static bool may_unlock(const uint8_t *bytes, size_t size)
{
	return is(load(bytes, size), 0xfffffc1f, 0x089ffc1f);
}

static enum exclusive_kind exclusive(const uint8_t *bytes, size_t size)
{
	uint32_t insn = load(bytes, size);

	/* ldxr, ldaxr and stxr, stlxr of any size; those of a pair of registers */
	if (!is(insn, 0x3fa00000, 0x08000000) && !is(insn, 0xbfa00000, 0x88200000))
		return EXCLUSIVE_NONE;
	return insn & 1 << 22 ? EXCLUSIVE_LOAD : EXCLUSIVE_STORE;
}

/* tlbi of the shareable domain, in which all CPUs are, also of a range; dsb ish, dsb sy: C5.5, C6.2. */
static enum broadcast_kind broadcast(const uint8_t *bytes, size_t size)
{
	uint32_t insn = load(bytes, size);
	unsigned int domain = insn >> 8 & 15; /* CRm */

	if (is(insn, 0xfff8f000, 0xd5088000))
		return domain < 6 && domain != 4 ? BROADCAST_SENT : BROADCAST_NONE;
	return is(insn, 0xfffff0ff, 0xd503309f) && (domain == 11 || domain == 15) ? BROADCAST_AWAITED : BROADCAST_NONE;
}

static bool is_atomic(const uint8_t *bytes, size_t size)
{
	uint32_t insn = load(bytes, size);

	if (is(insn, 0x3b200c00, 0x38200000)) /* ldadd and the like, swp; but not ldapr and 64-byte accesses */
		return !(insn & 1 << 15) || !(insn >> 12 & 7);
	return is(insn, 0x3fa07c00, 0x08a07c00) || is(insn, 0xbfa07c00, 0x08207c00) || /* cas; casp */
	       exclusive(bytes, size) == EXCLUSIVE_STORE;
}

enum { ATOMIC = 1, STXR, DMB, DSB, ISB, SB, ERET, TLBI, CACHE, COUNTER, TIMER, TTBR, GIC };

static const char *const costly_names[] = {
	[ATOMIC] = "lse", /* ldadd, swp, cas and the like */
	[STXR] = "stxr",  /* with the load that it belongs to */
	[DMB] = "dmb",
	[DSB] = "dsb",
	[ISB] = "isb",
	[SB] = "sb",
	[ERET] = "eret",
	[TLBI] = "tlbi",
	[CACHE] = "dc",		 /* and ic; but not dc zva */
	[COUNTER] = "mrs cnt",	 /* of the counter that is the kernel's clock */
	[TIMER] = "msr cnt",
	[TTBR] = "msr ttbr",
	[GIC] = "msr icc",	 /* of the interrupt controller: icc_sgi1r_el1 interrupts other CPUs */
	NULL,
};

static unsigned int costly_of_barrier(uint32_t insn)
{
	switch (insn >> 5 & 7) {
	case 4:
		return DSB;
	case 5:
		return DMB;
	case 6:
		return ISB;
	case 7:
		return SB;
	default:
		return 0;
	}
}

/* System instructions, and moves to and from system registers: C4.1.93, and D23 for the registers' encodings. */
static unsigned int costly_of_system(uint32_t insn)
{
	if (is(insn, 0xfffff01f, 0xd503301f))
		return costly_of_barrier(insn);
	if (is(insn, 0xfff8f000, 0xd5088000))
		return TLBI;
	if (is(insn, 0xfff8f000, 0xd5087000) && !is(insn, 0xffffff00, 0xd50b7400) && !is(insn, 0xffffff00, 0xd5087800))
		return CACHE; /* CRn is 7, but no dc zva and no at */
	if (is(insn, 0xffffff00, 0xd53be000)) /* cntpct_el0, cntvct_el0 and those that wait for what comes before */
		return insn >> 5 & 7 ? COUNTER : 0; /* but not cntfrq_el0 */
	if (is(insn, 0xfffff000, 0xd51be000))
		return TIMER;
	if (is(insn, 0xffffffc0, 0xd5182000))
		return TTBR;
	return is(insn, 0xfffff000, 0xd518c000) ? GIC : 0;
}

static unsigned int costly(const uint8_t *bytes, size_t size)
{
	uint32_t insn = load(bytes, size);

	if (exclusive(bytes, size) == EXCLUSIVE_STORE)
		return STXR;
	if (is_atomic(bytes, size))
		return ATOMIC;
	if (is(insn, 0xff000000, 0xd5000000))
		return costly_of_system(insn);
	return classify(bytes, size) == INSN_INTERRUPT_RETURN ? ERET : 0;
}

/*
 * arch/arm64/kernel/entry.S. The table of vectors has 16: synchronous, IRQ, FIQ, SError, in each of four states: the
 * kernel on a stack that it does not use, the kernel, 64-bit user code, 32-bit user code. Mitigations of branch history
 * injection have three tables of the same form, one behind the other, which go on to the first one for user code only.
 */
#define VECTORS 16

static unsigned int nr_vectors(const char *symbol)
{
	if (!strcmp(symbol, "vectors"))
		return VECTORS;
	return strcmp(symbol, "__bp_harden_el1_vectors") ? 0 : 3 * VECTORS;
}

static enum entry_kind vector_kind(unsigned int nr)
{
	bool interrupt = nr % 4 == 1 || nr % 4 == 2;

	switch (nr % VECTORS / 4) {
	case 1:
		return interrupt ? ENTRY_INTERRUPT : nr % 4 ? ENTRY_NONE : ENTRY_EXCEPTION;
	case 2:
	case 3:
		return interrupt ? ENTRY_USER_INTERRUPT : ENTRY_NONE;
	default:
		return ENTRY_NONE;
	}
}

static enum entry_kind entry_kind(const char *symbol, char type)
{
	static const char *const ftrace[] = { "ftrace_caller", "ftrace_regs_caller" };
	/* Whatever lets a task be preempted again branches there. */
	static const char *const deferred[] = { TICK_WORK, SOFTIRQS, "preempt_schedule", "preempt_schedule_notrace" };
	size_t length = strlen(symbol);

	(void)type;
	if (!strcmp(symbol, "cpu_switch_to"))
		return ENTRY_CONTEXT_SWITCH;
	if (!strcmp(symbol, "ret_from_fork"))
		return ENTRY_NEW_TASK;
	if (!strcmp(symbol, "el0_svc"))
		return ENTRY_SYSTEM_CALL;
	if (!strcmp(symbol, "el0_svc_compat"))
		return ENTRY_OTHER_SYSTEM_CALL;
	if (IS_ONE_OF(symbol, length, ftrace))
		return ENTRY_FTRACE;
	return IS_ONE_OF(symbol, length, deferred) ? ENTRY_DEFERRED : ENTRY_NONE;
}

/* The members pc and pstate of a struct pt_regs; copy_thread() sets a kernel thread's pc to 0. */
static bool is_user_frame(const uint64_t *pc)
{
	return pc[0] && !(pc[1] & 15); /* PSTATE.M: EL0, of 64 or 32 bits */
}

/* arch/arm64/include/asm/ptrace.h: pc is the tenth word from the end of struct pt_regs, in 7.2 the eighth. */
static bool is_user_entry(const uint64_t words[STACK_TOP_BYTES / 8])
{
	const uint64_t *top = words + STACK_TOP_BYTES / 8;

	return is_user_frame(top - 10) || is_user_frame(top - 8);
}

/* What marks a target of branches, and what ftrace may change, comes behind the symbol. */
static unsigned int entry_offset(const uint8_t bytes[ENTRY_BYTES])
{
	(void)bytes;
	return 0;
}

static bool find_call(const uint8_t *bytes, size_t size, uint64_t pc, uint64_t callee, uint64_t *call, uint64_t *next)
{
	for (size_t i = 0; i + 4 <= size; i += 4) {
		uint32_t insn = load(bytes + i, 4);

		if (is_direct_call(insn) && pc + i + distance(insn) == callee) {
			*call = pc + i;
			*next = pc + i + 4;
			return true;
		}
	}
	return false;
}

const struct arch arch_aarch64 = {
	.target = "aarch64",
	.line_bytes = 64,
	.kernel_start = 0xffff000000000000,
	/* Documentation/arch/arm64/memory.rst, with addresses of 48 bits: what follows is for vmalloc() and devices */
	.memory = { { 0xffff000000000000, 0xffff800000000000 } },
	.mark_registers = { "x0", "x1", "x2", "x3" },
	.call_registers = { "x0", "x0", "x3" },
	.stack_register = "sp",
	.entry_stack_register = "sp",
	.system_call_register = "x0", /* of el0_svc(): struct pt_regs, with x8 in its ninth word */
	.system_call_at = 64,
	/* Before its page tables are in use, the kernel's addresses are low, like the user's. */
	.state_register = "cpsr",
	.saved_state_register = "SPSR_EL1",
	.user_state = { 15, 0 }, /* PSTATE.M: EL0 */
	.is_mark = is_mark,
	.classify = classify,
	.fill = fill,
	.may_unlock = may_unlock,
	.is_atomic = is_atomic,
	.exclusive = exclusive,
	.broadcast = broadcast,
	.costly_names = costly_names,
	.costly = costly,
	.entry_kind = entry_kind,
	.nr_vectors = nr_vectors,
	.vector_kind = vector_kind,
	.vector_bytes = 128,
	.is_user_entry = is_user_entry,
	.entry_offset = entry_offset,
	.find_call = find_call,
};
