// SPDX-License-Identifier: GPL-2.0-or-later
/* Instruction formats: Power ISA 3.0B, book I, section 1.6 and appendix E. */
#include <string.h>

#include "arch/arch.h"
#include "lib/names.h"

#define ALWAYS 0x14 /* in BO of a branch: whatever the condition */

static const char *const registers[32] = {
	"r0",  "r1",  "r2",  "r3",  "r4",  "r5",  "r6",	 "r7",	"r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15",
	"r16", "r17", "r18", "r19", "r20", "r21", "r22", "r23", "r24", "r25", "r26", "r27", "r28", "r29", "r30", "r31",
};

static uint32_t load(const uint8_t *bytes, size_t size)
{
	uint32_t insn = 0;

	memcpy(&insn, bytes, size < sizeof(insn) ? size : sizeof(insn));
	return insn;
}

static unsigned int opcode(uint32_t insn)
{
	return insn >> 26;
}

static unsigned int extended(uint32_t insn)
{
	return insn >> 1 & 0x3ff;
}

/* BO of a branch, RT or RS of what accesses memory. */
static unsigned int first_field(uint32_t insn)
{
	return insn >> 21 & 31;
}

/* BI of a branch, RA of what accesses memory. */
static unsigned int second_field(uint32_t insn)
{
	return insn >> 16 & 31;
}

static unsigned int third_field(uint32_t insn)
{
	return insn >> 11 & 31;
}

static bool links(uint32_t insn)
{
	return insn & 1;
}

/* xori r0,r0,0: does nothing, as ori r0,r0,0 does, which compilers use to align code */
static bool is_mark(const uint8_t *bytes, size_t size)
{
	return load(bytes, size) == 0x68000000;
}

static int32_t distance(uint32_t insn)
{
	if (opcode(insn) == 18)
		return (int32_t)(insn << 6) >> 6 & ~3;
	return (int16_t)insn & ~3;
}

static enum insn_kind classify_branch(uint32_t insn)
{
	switch (extended(insn)) {
	case 16: /* bclr */
		if (links(insn))
			return INSN_CALL;
		return (first_field(insn) & ALWAYS) == ALWAYS ? INSN_RETURN : INSN_MAY_RETURN;
	case 528: /* bcctr */
	case 560: /* bctar */
		return links(insn) ? INSN_CALL : INSN_OTHER;
	case 18: /* rfid */
		return INSN_INTERRUPT_RETURN;
	case 82: /* rfscv */
		return INSN_USER_RETURN;
	default:
		return INSN_OTHER;
	}
}

static enum insn_kind classify(const uint8_t *bytes, size_t size)
{
	uint32_t insn = load(bytes, size);

	switch (opcode(insn)) {
	case 16:
	case 18:
		/* A call of what follows only asks where it is. */
		return links(insn) && distance(insn) != 4 ? INSN_CALL : INSN_OTHER;
	case 19:
		return classify_branch(insn);
	case 31:
		if (extended(insn) == 1014) /* dcbz */
			return INSN_FILL;
		break;
	case 32 ... 58: /* loads and stores */
	case 61:
	case 62:
		break;
	default:
		return INSN_OTHER;
	}
	return second_field(insn) == 1 ? INSN_STACK : INSN_OTHER;
}

/* dcbz sets a line to zero. */
static struct fill_form fill(const uint8_t *bytes, size_t size)
{
	uint32_t insn = load(bytes, size);
	unsigned int base = second_field(insn);

	return (struct fill_form){
		.start = { registers[third_field(insn)], base ? registers[base] : NULL },
		.element = 128,
		.aligned = true,
	};
}

/* The bits of the condition register are numbered from the left. That a count ends has no part in a kernel's returns. */
static bool returns(uint32_t insn, uint64_t condition)
{
	bool bit = condition >> (31 - second_field(insn)) & 1;

	return first_field(insn) & 0x10 || bit == (first_field(insn) >> 3 & 1);
}

enum { MFTB = 1, SYNC, LWSYNC, PTESYNC, ISYNC, STCX, TLBIE, TLBIEL, MTSPR };

static const char *const costly_names[] = {
	[MFTB] = "mftb",
	[SYNC] = "sync",
	[LWSYNC] = "lwsync",
	[PTESYNC] = "ptesync",
	[ISYNC] = "isync",
	[STCX] = "stcx.", /* with the load that it belongs to */
	[TLBIE] = "tlbie",
	[TLBIEL] = "tlbiel",
	[MTSPR] = "mtspr", /* of AMR, IAMR and PIDR, which take effect at the next isync */
	NULL,
};

/* Of mfspr and mtspr: the number's halves are swapped. */
static unsigned int special_register(uint32_t insn)
{
	return second_field(insn) | third_field(insn) << 5;
}

static unsigned int costly_of_31(uint32_t insn)
{
	switch (extended(insn)) {
	case 598: /* sync L */
		return (first_field(insn) & 3) == 0 ? SYNC : (first_field(insn) & 3) == 1 ? LWSYNC : PTESYNC;
	case 150: /* stwcx. */
	case 182: /* stqcx. */
	case 214: /* stdcx. */
	case 694: /* stbcx. */
	case 726: /* sthcx. */
		return STCX;
	case 306:
		return TLBIE;
	case 274:
		return TLBIEL;
	case 371:
		return MFTB;
	case 339: /* mfspr: TB */
		return special_register(insn) == 268 ? MFTB : 0;
	case 467: /* mtspr: AMR by either number, PIDR, IAMR */
		switch (special_register(insn)) {
		case 13:
		case 29:
		case 48:
		case 61:
			return MTSPR;
		}
		return 0;
	default:
		return 0;
	}
}

static unsigned int costly(const uint8_t *bytes, size_t size)
{
	uint32_t insn = load(bytes, size);

	if (opcode(insn) == 31)
		return costly_of_31(insn);
	return opcode(insn) == 19 && extended(insn) == 150 ? ISYNC : 0;
}

/*
 * What an exception's vector is for, or NULL where it is none. In real mode the recorder sees only what follows it.
 * arch/powerpc/kernel/exceptions-64s.S, arch/powerpc/include/asm/head-64.h
 */
static const char *vector_name(const char *symbol, size_t *length)
{
	static const char vector[] = "exc_virt_0x1000_", common[] = "_common_real";

	*length = strlen(symbol);
	if (*length > strlen(vector) && !strncmp(symbol, vector, strlen("exc_virt_0x"))) {
		*length -= strlen(vector);
		return symbol + strlen(vector);
	}
	if (*length > strlen(common) && !strcmp(symbol + *length - strlen(common), common)) {
		*length -= strlen(common);
		return symbol;
	}
	return NULL;
}

static enum entry_kind entry_kind(const char *symbol, char type)
{
	static const char *const interrupts[] = { "decrementer",    "hdecrementer", "hardware_interrupt",
						  "doorbell_super", "h_doorbell",   "h_virt_irq",
						  "performance_monitor" };
	static const char *const system_calls[] = { "system_call", "system_call_vectored" };
	static const char *const ftrace[] = { "_mcount", "ftrace_caller", "ftrace_regs_caller" };
	/* arch/powerpc/kernel/irq_64.c: interrupts are soft-masked, and those that came are replayed later. */
	static const char *const deferred[] = { "replay_soft_interrupts", "__replay_soft_interrupts", "irq_enter",
						"irq_exit", TICK_WORK };
	/* The last two since 6.5, instead of the third. */
	static const char *const new_task[] = { "ret_from_fork", "ret_from_fork_scv", "ret_from_kernel_thread",
						"ret_from_kernel_user_thread", "start_kernel_thread" };
	size_t length = strlen(symbol);
	const char *vector;

	(void)type;
	if (!strcmp(symbol, "system_call_common") || !strcmp(symbol, "system_call_vectored_common"))
		return ENTRY_SYSTEM_CALL;
	if (!strcmp(symbol, "_switch"))
		return ENTRY_CONTEXT_SWITCH;
	if (IS_ONE_OF(symbol, length, new_task))
		return ENTRY_NEW_TASK;
	if (IS_ONE_OF(symbol, length, ftrace))
		return ENTRY_FTRACE;
	if (IS_ONE_OF(symbol, length, deferred))
		return ENTRY_DEFERRED;
	/* Looks for a CPU that hangs while interrupts are not wanted. */
	if (!strcmp(symbol, "soft_nmi_common"))
		return ENTRY_EMERGENCY_STACK;
	vector = vector_name(symbol, &length);
	if (!vector || IS_ONE_OF(vector, length, system_calls))
		return ENTRY_NONE;
	return IS_ONE_OF(vector, length, interrupts) ? ENTRY_INTERRUPT : ENTRY_EXCEPTION;
}

/* The member msr of a struct pt_regs: SF, EE, PR, IR, DR and LE. No kernel address has the second bit from the left clear. */
static bool is_user_state(uint64_t msr)
{
	return (msr & 0xc00000000000c031) == 0x800000000000c031;
}

/*
 * arch/powerpc/include/asm/ptrace.h: msr is the 15th word from the end of struct pt_regs, before 5.11 the 13th. Since 6.5
 * kernel threads have none, and other data there.
 */
static bool is_user_entry(const uint64_t words[STACK_TOP_BYTES / 8])
{
	const uint64_t *top = words + STACK_TOP_BYTES / 8;

	return is_user_state(top[-15]) || is_user_state(top[-13]);
}

/* ELFv2 ABI, 2.3.2.1: a function may begin with two instructions that set r2, which calls of the same module skip. */
static unsigned int entry_offset(const uint8_t bytes[ENTRY_BYTES])
{
	uint32_t high = load(bytes, 4) >> 16, low = load(bytes + 4, 4) >> 16;

	/* addis r2,r12 or lis r2; addi r2,r2 */
	return (high == 0x3c4c || high == 0x3c40) && low == 0x3842 ? 8 : 0;
}

static bool find_call(const uint8_t *bytes, size_t size, uint64_t pc, uint64_t callee, uint64_t *call, uint64_t *next)
{
	for (size_t i = 0; i + 4 <= size; i += 4) {
		uint32_t insn = load(bytes + i, 4);
		uint64_t target = pc + i + distance(insn);

		if (opcode(insn) == 18 && links(insn) && (target == callee || target == callee + 8)) {
			*call = pc + i;
			*next = pc + i + 4;
			return true;
		}
	}
	return false;
}

const struct arch arch_ppc64le = {
	.target = "ppc64",
	.line_bytes = 128,
	.kernel_start = 0xc000000000000000,
	/* arch/powerpc/include/asm/book3s/64/radix.h, hash.h: what follows is for vmalloc() and devices */
	.memory = { { 0xc000000000000000, 0xc008000000000000 } },
	.mark_registers = { "r3", "r4", "r5", "r6" },
	.call_registers = { "r3", "r3", "r6" },
	.system_call_register = "r0",
	.stack_register = "r1",
	.entry_stack_register = "r1",
	.condition_register = "cr",
	/* In real mode the kernel's addresses are as low as the user's. */
	.state_register = "msr",
	.saved_state_register = "srr1",
	.user_state = { 1 << 14, 1 << 14 },
	.virtual_state = { 1 << 5, 1 << 5 },
	.is_mark = is_mark,
	.classify = classify,
	.fill = fill,
	.returns = returns,
	.costly_names = costly_names,
	.costly = costly,
	.entry_kind = entry_kind,
	.is_user_entry = is_user_entry,
	.entry_offset = entry_offset,
	.find_call = find_call,
};
