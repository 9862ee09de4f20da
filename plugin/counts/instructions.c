// SPDX-License-Identifier: GPL-2.0-or-later
#include "counts/instructions.h"

#include "arch/guest.h"

#define TABLE_BYTES (64ull << 20)
#define CONTEXT_BITS 2
#define COSTLY_BITS 6

struct instruction_count {
	uint64_t function;
	uint64_t path; /* the chain, the number of what costs more, and the context */
	uint64_t instructions;
};

static const struct hash_type count_type = { sizeof(struct instruction_count), 2 };

void instructions_init(struct instruction_table *table)
{
	hash_free(&table->counts, &count_type);
	*table = (struct instruction_table){
		.counts = { .max_bytes = TABLE_BYTES },
	};
}

void instructions_add(struct instruction_table *table, const struct executed *executed, unsigned int costly,
		      uint64_t instructions)
{
	const uint64_t key[] = {
		executed->function,
		((uint64_t)executed->chain << COSTLY_BITS | costly) << CONTEXT_BITS | executed->context,
	};
	struct instruction_count *count = hash_add(&table->counts, &count_type, key, instructions);

	table->instructions[executed->context] += instructions;
	if (count)
		count->instructions += instructions;
}

static void write_count(FILE *out, unsigned int cpu, const struct instruction_count *count)
{
	enum context context = count->path & ((1 << CONTEXT_BITS) - 1);
	unsigned int costly = count->path >> CONTEXT_BITS & ((1 << COSTLY_BITS) - 1);

	fprintf(out, "%u,%s,%lu,%#lx,%s,%lu\n", cpu, context_name(context), count->path >> (CONTEXT_BITS + COSTLY_BITS),
		count->function, costly ? guest.arch->costly_names[costly] : "", count->instructions);
}

int instructions_write(FILE *out, struct instruction_table *const *tables, unsigned int nr_tables)
{
	fprintf(out, "cpu,context,chain,function,instruction,instructions\n");
	for (unsigned int t = 0; t < nr_tables; t++) {
		const struct instruction_count *count;

		hash_for_each(count, &tables[t]->counts, &count_type)
			write_count(out, t, count);
	}
	return ferror(out) ? -1 : 0;
}
