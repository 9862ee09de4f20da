// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives the recorder's counting by sequences. Standard input, a command a line:
 *
 *	CPU ADDRESS PC CHAIN WRITES	an access of 8 bytes to the line there: a read, or a write
 *	CPU next			what it does from now on is another operation
 *
 * Standard output: of each CPU, line, instruction and chain, what was counted; and how often all was forgotten.
 */
#include <stdlib.h>

#include "../plugin/cache_lines/open_lines.h"
#include "../plugin/counts/insns.h"

#define NR_CPUS 2
#define SIZE_SHIFT 3

static struct cpu {
	struct open_lines open;
	struct line_table lines;
} cpus[NR_CPUS];

static unsigned int nr_forgotten;

static void close_all(void)
{
	for (unsigned int nr = 0; nr < NR_CPUS; nr++) {
		open_lines_close(&cpus[nr].open, &cpus[nr].lines);
		lines_flush(&cpus[nr].lines);
		lines_expand(&cpus[nr].lines);
	}
}

static void count(struct cpu *cpu, uint64_t address, uint32_t insn, uint32_t chain, unsigned int writes)
{
	uint64_t key = lines_key(address, CONTEXT_OPERATION);
	const struct access access = {
		.insn = access_insn(insn) | (address & (LINE_BYTES - 1)),
		.chain = chain,
		.meminfo_or_part = writes,
	};
	const struct effect effect = { lines_bytes(address, SIZE_SHIFT), !writes, writes };

	if (open_lines_expect(&cpu->open, key, &access) ||
	    open_lines_add(&cpu->open, &cpu->lines, key, &access, &effect))
		return;
	close_all();
	sequences_forget();
	nr_forgotten++;
	if (!open_lines_add(&cpu->open, &cpu->lines, key, &access, &effect))
		exit(1);
}

static void obey(const char *line)
{
	unsigned int cpu, chain, writes;
	uint64_t address, pc;

	if (sscanf(line, "%u %lx %lx %u %u", &cpu, &address, &pc, &chain, &writes) == 5)
		count(&cpus[cpu], address, insns_number(pc), chain, writes);
	else if (sscanf(line, "%u next", &cpu) == 1)
		open_lines_next_operation(&cpus[cpu].open);
	else
		exit(1);
}

int main(void)
{
	static const struct hash_type type = { sizeof(struct line_count), LINE_KEY_WORDS };
	const struct line_count *count;
	char line[256];

	for (unsigned int nr = 0; nr < NR_CPUS; nr++)
		lines_init(&cpus[nr].lines, 1 << 20);
	while (fgets(line, sizeof(line), stdin))
		obey(line);
	close_all();
	for (unsigned int nr = 0; nr < NR_CPUS; nr++)
		hash_for_each(count, &cpus[nr].lines.counts, &type)
			printf("%u %lx %lx %u %lx %u %u\n", nr, count->line & ~63ul, insns_pc(count->insn),
			       count->chain, count->bytes, count->reads, count->writes);
	printf("%u\n", nr_forgotten);
	return 0;
}
