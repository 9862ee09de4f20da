// SPDX-License-Identifier: GPL-2.0-or-later
#include "counts/insns.h"

#include "lib/hash.h"
#include "lib/xalloc.h"

struct insn {
	uint64_t pc;
	uint64_t number; /* 0: it has none yet */
};

static const struct hash_type insn_type = { sizeof(struct insn), 1 };
static struct hash_table insns = { .max_bytes = UINT64_MAX }; /* the guest has only so much code */

static struct {
	uint64_t *pcs; /* by number */
	uint32_t nr, room;
} numbered = { .nr = 1 };

static uint32_t add(uint64_t pc)
{
	if (numbered.nr >= numbered.room) {
		numbered.room = numbered.room ? numbered.room * 2 : 4096;
		numbered.pcs = xrealloc(numbered.pcs, numbered.room * sizeof(*numbered.pcs));
	}
	numbered.pcs[numbered.nr] = pc;
	return numbered.nr++;
}

uint32_t insns_number(uint64_t pc)
{
	struct insn *insn = hash_add(&insns, &insn_type, &pc, 1);

	if (!insn) {
		fprintf(stderr, "recorder: no memory for the numbers of %lu instructions\n", insns.used);
		abort();
	}
	if (!insn->number)
		insn->number = add(pc);
	return insn->number;
}

uint64_t insns_pc(uint32_t number)
{
	return numbered.pcs[number];
}
