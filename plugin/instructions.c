// SPDX-License-Identifier: GPL-2.0-or-later
#include "instructions.h"

#define TABLE_BYTES (64ull << 20)

struct instruction_count {
	uint64_t function;
	uint64_t path; /* the chain, and the context */
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

void instructions_add(struct instruction_table *table, const struct executed *executed, uint32_t times)
{
	const uint64_t key[] = { executed->function, (uint64_t)executed->chain << 2 | executed->context };
	uint64_t instructions = (uint64_t)executed->instructions * times;
	struct instruction_count *count = hash_add(&table->counts, &count_type, key, instructions);

	table->instructions[executed->context] += instructions;
	if (count)
		count->instructions += instructions;
}

int instructions_write(FILE *out, struct instruction_table *const *tables, unsigned int nr_tables)
{
	fprintf(out, "cpu,context,chain,function,instructions\n");
	for (unsigned int t = 0; t < nr_tables; t++) {
		const struct instruction_count *count;

		hash_for_each(count, &tables[t]->counts, &count_type)
			fprintf(out, "%u,%s,%lu,%#lx,%lu\n", t, context_name(count->path & 3), count->path >> 2,
				count->function, count->instructions);
	}
	return ferror(out) ? -1 : 0;
}
