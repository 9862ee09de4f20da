// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Says of each line of standard input what the recorder takes it for on the architecture that ARCH is defined as: an
 * instruction's bytes in hex, a symbol's type and its name, the bytes with which a function begins, words of a stack.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "../plugin/arch/arch.h"

static const char *const insn_kinds[] = {
	[INSN_OTHER] = "other",
	[INSN_STRING] = "string",
	[INSN_UNSEEN] = "unseen",
	[INSN_STACK] = "stack",
	[INSN_CALL] = "call",
	[INSN_RETURN] = "return",
	[INSN_MAY_RETURN] = "may return",
	[INSN_CALL_BY_MEMORY] = "call by memory",
	[INSN_INTERRUPT_RETURN] = "interrupt return",
	[INSN_USER_RETURN] = "user return",
};

static const char *const entry_kinds[] = {
	[ENTRY_NONE] = "none",
	[ENTRY_EXCEPTION] = "exception",
	[ENTRY_INTERRUPT] = "interrupt",
	[ENTRY_OLD_EXCEPTION] = "old exception",
	[ENTRY_OLD_INTERRUPT] = "old interrupt",
	[ENTRY_CONTEXT_SWITCH] = "switch",
	[ENTRY_SWITCHED] = "switched",
	[ENTRY_USER_INTERRUPT] = "user interrupt",
	[ENTRY_EMERGENCY_STACK] = "emergency stack",
	[ENTRY_DEFERRED] = "deferred",
	[ENTRY_FTRACE] = "ftrace",
	[ENTRY_NEW_TASK] = "new task",
	[ENTRY_SYSTEM_CALL] = "system call",
	[ENTRY_OTHER_SYSTEM_CALL] = "other system call",
};

static size_t read_hex(const char *hex, uint8_t bytes[16])
{
	size_t size = 0;

	while (size < 16 && sscanf(hex, " %2hhx", &bytes[size]) == 1) {
		size++;
		hex += 2 + (hex[2] == ' ');
	}
	return size;
}

static const char *may_unlock(const char *hex)
{
	uint8_t bytes[16];

	return ARCH.may_unlock(bytes, read_hex(hex, bytes)) ? "yes" : "no";
}

static const char *costly(const char *hex)
{
	uint8_t bytes[16];
	unsigned int number = ARCH.costly(bytes, read_hex(hex, bytes));

	return number ? ARCH.costly_names[number] : "none";
}

static const char *atomic(const char *hex)
{
	static const char *const exclusive_kinds[] = { "no", "exclusive load", "exclusive store" };
	enum exclusive_kind exclusive;
	uint8_t bytes[16];
	size_t size = read_hex(hex, bytes);

	exclusive = ARCH.exclusive ? ARCH.exclusive(bytes, size) : EXCLUSIVE_NONE;
	return !exclusive && ARCH.is_atomic(bytes, size) ? "yes" : exclusive_kinds[exclusive];
}

/* The number and the kind of each of a table's vectors that the recorder watches. */
static const char *vectors(const char *symbol)
{
	static char text[2048];
	int end = 0;

	text[0] = 0;
	for (unsigned int i = 0; i < ARCH.nr_vectors(symbol); i++)
		if (ARCH.vector_kind(i) != ENTRY_NONE)
			end += sprintf(text + end, "%s%u %s", end ? ", " : "", i, entry_kinds[ARCH.vector_kind(i)]);
	return text;
}

static const char *kind_of_insn(const char *hex)
{
	static char text[64];
	struct fill_form form;
	enum insn_kind kind;
	uint8_t bytes[16];
	size_t size = read_hex(hex, bytes);

	if (ARCH.is_mark(bytes, size))
		return "mark";
	kind = ARCH.classify(bytes, size);
	if (kind != INSN_FILL)
		return insn_kinds[kind];
	form = ARCH.fill(bytes, size);
	snprintf(text, sizeof(text), "fill by %u from %s%s%s", form.element, form.start[0], form.start[1] ? "+" : "",
		 form.start[1] ? form.start[1] : "");
	return text;
}

/* An instruction's bytes, and the condition register in hex. */
static const char *returns(const char *line)
{
	uint64_t condition = 0;
	uint8_t bytes[16];
	uint32_t insn;

	read_hex(line, bytes);
	memcpy(&insn, bytes, sizeof(insn));
	sscanf(strchr(line, ','), ", %lx", &condition);
	return ARCH.returns(insn, condition) ? "yes" : "no";
}

static const char *offset_of_entry(const char *hex)
{
	static char text[16];
	uint8_t bytes[16];

	read_hex(hex, bytes);
	snprintf(text, sizeof(text), "%u", ARCH.entry_offset(bytes));
	return text;
}

/* Code at address 0x1000, and the address of a function in hex: where it calls it first. */
static const char *call_of(const char *line)
{
	uint64_t callee = 0, call, next;
	static char text[64];
	uint8_t bytes[16];
	size_t size = read_hex(line, bytes);

	sscanf(strchr(line, ','), ", %lx", &callee);
	if (!ARCH.find_call(bytes, size, 0x1000, callee, &call, &next))
		return "none";
	snprintf(text, sizeof(text), "%#lx to %#lx", call, next);
	return text;
}

/* Words at the top of a stack, in hex, each behind how far it lies below the top: whose they show a task to be. */
static const char *owner(const char *line)
{
	uint64_t words[STACK_TOP_BYTES / 8] = { 0 }, word;
	int below, length;

	for (; sscanf(line, "%d %lx %n", &below, &word, &length) == 2; line += length)
		words[STACK_TOP_BYTES / 8 - below / 8] = word;
	return ARCH.is_user_entry(words) ? "user" : "kernel";
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	char line[256];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(what, "insns"))
			puts(kind_of_insn(line));
		else if (!strcmp(what, "costly"))
			puts(costly(line));
		else if (!strcmp(what, "unlocks"))
			puts(may_unlock(line));
		else if (!strcmp(what, "atomics"))
			puts(atomic(line));
		else if (!strcmp(what, "vectors"))
			puts(vectors(line));
		else if (!strcmp(what, "returns"))
			puts(returns(line));
		else if (!strcmp(what, "offsets"))
			puts(offset_of_entry(line));
		else if (!strcmp(what, "calls"))
			puts(call_of(line));
		else if (!strcmp(what, "owners"))
			puts(owner(line));
		else
			puts(entry_kinds[ARCH.entry_kind(line + 2, line[0])]);
	}
	return 0;
}
