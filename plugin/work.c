// SPDX-License-Identifier: GPL-2.0-or-later
#include "work.h"

#define TABLE_BYTES (64ull << 20)

struct work_count {
	uint64_t function;
	uint64_t path; /* the chain, and the context */
	uint64_t instructions;
};

static const struct hash_type count_type = { sizeof(struct work_count), 2 };

void work_init(struct work_table *table)
{
	hash_free(&table->counts, &count_type);
	*table = (struct work_table){
		.counts = { .max_bytes = TABLE_BYTES },
	};
}

void work_add(struct work_table *table, const struct work *work, uint32_t times)
{
	const uint64_t key[] = { work->function, (uint64_t)work->chain << 2 | work->context };
	uint64_t instructions = (uint64_t)work->instructions * times;
	struct work_count *count = hash_add(&table->counts, &count_type, key, instructions);

	table->instructions[work->context] += instructions;
	if (count)
		count->instructions += instructions;
}

int work_write(FILE *out, struct work_table *const *tables, unsigned int nr_tables)
{
	fprintf(out, "cpu,context,chain,function,instructions\n");
	for (unsigned int t = 0; t < nr_tables; t++) {
		const struct work_count *count;

		hash_for_each(count, &tables[t]->counts, &count_type)
			fprintf(out, "%u,%s,%lu,%#lx,%lu\n", t, context_name(count->path & 3), count->path >> 2,
				count->function, count->instructions);
	}
	return ferror(out) ? -1 : 0;
}
