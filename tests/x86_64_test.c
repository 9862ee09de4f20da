// SPDX-License-Identifier: GPL-2.0-or-later
/* Says of each line of standard input, an instruction's bytes in hex or a symbol's name, what the recorder takes it for. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "../plugin/arch.h"

static const char *const insn_kinds[] = {
	[INSN_OTHER] = "other",
	[INSN_STRING] = "string",
	[INSN_STACK] = "stack",
	[INSN_CALL] = "call",
	[INSN_RETURN] = "return",
	[INSN_CALL_BY_MEMORY] = "call by memory",
	[INSN_INTERRUPT_RETURN] = "interrupt return",
};

static const char *const entry_kinds[] = {
	[ENTRY_NONE] = "none",
	[ENTRY_EXCEPTION] = "exception",
	[ENTRY_INTERRUPT] = "interrupt",
	[ENTRY_SWITCH] = "switch",
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

	return arch_x86_64.may_unlock(bytes, read_hex(hex, bytes)) ? "yes" : "no";
}

static const char *kind_of_insn(const char *hex)
{
	static char text[32];
	enum insn_kind kind;
	uint8_t bytes[16];
	size_t size = read_hex(hex, bytes);

	if (arch_x86_64.is_mark(bytes, size))
		return "mark";
	kind = arch_x86_64.classify(bytes, size);
	if (kind != INSN_FILL)
		return insn_kinds[kind];
	snprintf(text, sizeof(text), "fill by %u", arch_x86_64.fill_element(bytes, size));
	return text;
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";
	char line[256];

	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		if (!strcmp(what, "insns"))
			puts(kind_of_insn(line));
		else if (!strcmp(what, "unlocks"))
			puts(may_unlock(line));
		else
			puts(entry_kinds[arch_x86_64.entry_kind(line)]);
	}
	return 0;
}
