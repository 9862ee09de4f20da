/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The access of a string instruction to one cache line, which is counted when the instruction leaves the line. */
#ifndef STRING_ACCESS_H
#define STRING_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

struct string_access {
	uint64_t line;	     /* lines_key(); 0: none */
	uint64_t from, next; /* the first byte, and the byte after the last: in this line or the next one */
	uint32_t insn, chain;
	uint32_t info; /* QEMU's of each element */
	uint16_t size; /* of an element; 0: there was none yet */
	bool counted;  /* a part of the line is counted already: the rest belongs to the same access */
};

#endif
