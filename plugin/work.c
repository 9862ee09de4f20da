// SPDX-License-Identifier: GPL-2.0-or-later
#include "work.h"

#include <stdbool.h>
#include <stdlib.h>

#include "hash.h"

#define FIRST_CAPACITY 4096
#define MAX_CAPACITY (1u << 20)

struct work_count {
	uint64_t function; /* 0: unused */
	uint64_t instructions;
	chain_id chain;
	enum context context;
};

static struct work_count *find(const struct work_table *table, uint64_t function, chain_id chain, enum context context)
{
	uint64_t at = hash(function, (uint64_t)chain << 2 | context) & (table->capacity - 1);
	struct work_count *count;

	for (;; at = (at + 1) & (table->capacity - 1)) {
		count = &table->counts[at];
		if (!count->function ||
		    (count->function == function && count->chain == chain && count->context == context))
			return count;
	}
}

static bool grow(struct work_table *table)
{
	struct work_table bigger = *table;

	bigger.capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY;
	if (bigger.capacity > MAX_CAPACITY)
		return false;
	bigger.counts = calloc(bigger.capacity, sizeof(*bigger.counts));
	if (!bigger.counts)
		return false;
	for (uint64_t i = 0; i < table->capacity; i++) {
		const struct work_count *count = &table->counts[i];

		if (count->function)
			*find(&bigger, count->function, count->chain, count->context) = *count;
	}
	free(table->counts);
	*table = bigger;
	return true;
}

void work_count(struct work_table *table, const struct work *work, uint32_t times)
{
	uint64_t instructions = (uint64_t)work->instructions * times;
	struct work_count *count;

	table->instructions[work->context] += instructions;
	if (table->used * 2 >= table->capacity && !grow(table)) {
		table->lost += instructions;
		return;
	}
	count = find(table, work->function, work->chain, work->context);
	if (!count->function) {
		*count = (struct work_count){ work->function, 0, work->chain, work->context };
		table->used++;
	}
	count->instructions += instructions;
}

int work_write(FILE *out, struct work_table *const *tables, unsigned int nr_tables)
{
	fprintf(out, "cpu,context,chain,function,instructions\n");
	for (unsigned int t = 0; t < nr_tables; t++) {
		for (uint64_t i = 0; i < tables[t]->capacity; i++) {
			const struct work_count *count = &tables[t]->counts[i];

			if (count->function)
				fprintf(out, "%u,%s,%u,%#lx,%lu\n", t, context_names[count->context], count->chain,
					count->function, count->instructions);
		}
	}
	return ferror(out) ? -1 : 0;
}
