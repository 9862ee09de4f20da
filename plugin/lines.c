// SPDX-License-Identifier: GPL-2.0-or-later
#include "lines.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"

#define FIRST_CAPACITY 4096

struct line_count {
	uint64_t key; /* line | context << 1 | 1: never 0 in a used entry */
	uint64_t pc;
	uint64_t bytes; /* a bit for each byte of the line that was touched; 0 in a used entry: is no memory */
	uint32_t reads, writes;
	uint32_t chain;
};

/* What all CPUs together did to each line: an open hash table. */
struct line_sum {
	uint64_t line; /* 0: unused */
	uint32_t first_table;
	uint8_t shared, written;
};

struct line_sums {
	struct line_sum *sums;
	uint64_t capacity, used;
};

const char *const context_names[NR_CONTEXTS] = { "operation", "interrupt", "kthread" };

static uint64_t line_of(uint64_t address)
{
	return address & ~(uint64_t)(LINE_BYTES - 1);
}

static uint64_t count_line(const struct line_count *count)
{
	return line_of(count->key);
}

static enum context count_context(const struct line_count *count)
{
	return count->key >> 1 & 3;
}

void lines_init(struct line_table *table, uint64_t max_bytes)
{
	uint64_t limit = FIRST_CAPACITY;

	/* Growing needs the old table beside the new one. */
	while (limit * 2 * sizeof(struct line_count) * 3 / 2 <= max_bytes)
		limit *= 2;
	*table = (struct line_table){
		.counts = calloc(FIRST_CAPACITY, sizeof(struct line_count)),
		.capacity = FIRST_CAPACITY,
		.limit = limit,
	};
}

void lines_free(struct line_table *table)
{
	free(table->counts);
	*table = (struct line_table){ 0 };
}

static struct line_count *find(struct line_count *counts, uint64_t capacity, uint64_t key, uint64_t pc, uint32_t chain)
{
	uint64_t at = hash(key ^ (uint64_t)chain << 40, pc) & (capacity - 1);

	while (counts[at].key && (counts[at].key != key || counts[at].pc != pc || counts[at].chain != chain))
		at = (at + 1) & (capacity - 1);
	return &counts[at];
}

static bool grow(struct line_table *table)
{
	struct line_count *bigger;

	if (table->capacity >= table->limit)
		return false;
	bigger = calloc(table->capacity * 2, sizeof(*bigger));
	if (!bigger)
		return false;
	for (uint64_t i = 0; i < table->capacity; i++)
		if (table->counts[i].key)
			*find(bigger, table->capacity * 2, table->counts[i].key, table->counts[i].pc,
			      table->counts[i].chain) = table->counts[i];
	free(table->counts);
	table->counts = bigger;
	table->capacity *= 2;
	return true;
}

static uint64_t key_of(const struct line_access *access)
{
	return line_of(access->address) | (uint64_t)access->context << 1 | 1;
}

static uint64_t byte_mask(const struct line_access *access)
{
	unsigned int bytes = 1u << access->size_shift;
	uint64_t mask = bytes >= 64 ? ~0ull : (1ull << bytes) - 1;

	return mask << (access->address & (LINE_BYTES - 1));
}

bool lines_count(struct line_table *table, const struct line_access *access)
{
	uint64_t key = key_of(access);
	struct line_count *count = find(table->counts, table->capacity, key, access->pc, access->chain);
	bool is_new = !count->key;

	if (!is_new && !count->bytes)
		return false;
	table->accesses[access->context] += !access->again;
	if (is_new) {
		/* At most three quarters full, so that every probe ends. */
		if (table->used * 4 >= table->capacity * 3) {
			if (!grow(table)) {
				table->lost++;
				return false;
			}
			count = find(table->counts, table->capacity, key, access->pc, access->chain);
		}
		table->used++;
		count->key = key;
		count->pc = access->pc;
		count->chain = access->chain;
	}
	count->bytes |= byte_mask(access);
	if (access->store)
		count->writes += !access->again;
	else
		count->reads += !access->again;
	return is_new;
}

void lines_ignore(struct line_table *table, const struct line_access *access)
{
	struct line_count *count = find(table->counts, table->capacity, key_of(access), access->pc, access->chain);

	table->accesses[access->context] -= count->reads + count->writes;
	count->reads = count->writes = 0;
	count->bytes = 0;
}

static struct line_sum *find_sum(const struct line_sums *table, uint64_t line)
{
	uint64_t at = hash(line, 0) & (table->capacity - 1);

	while (table->sums[at].line && table->sums[at].line != line)
		at = (at + 1) & (table->capacity - 1);
	return &table->sums[at];
}

static bool grow_sums(struct line_sums *table)
{
	struct line_sums bigger = { .capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY };

	bigger.used = table->used;
	bigger.sums = calloc(bigger.capacity, sizeof(*bigger.sums));
	if (!bigger.sums)
		return false;
	for (uint64_t i = 0; i < table->capacity; i++)
		if (table->sums[i].line)
			*find_sum(&bigger, table->sums[i].line) = table->sums[i];
	free(table->sums);
	*table = bigger;
	return true;
}

static bool was_touched(const struct line_count *count)
{
	return count->reads || count->writes;
}

static bool sum_lines(struct line_sums *result, const struct line_table *tables, unsigned int nr_tables)
{
	*result = (struct line_sums){ 0 };
	for (unsigned int t = 0; t < nr_tables; t++) {
		for (uint64_t i = 0; i < tables[t].capacity; i++) {
			const struct line_count *count = &tables[t].counts[i];
			struct line_sum *sum;

			if (!was_touched(count))
				continue;
			if (result->used * 2 >= result->capacity && !grow_sums(result))
				return false;
			sum = find_sum(result, count_line(count));
			if (!sum->line) {
				sum->line = count_line(count);
				sum->first_table = t;
				result->used++;
			}
			sum->shared |= sum->first_table != t;
			sum->written |= count->writes != 0;
		}
	}
	return true;
}

static void write_count(FILE *out, unsigned int cpu, const struct line_count *count)
{
	fprintf(out, "%u,%s,%#lx,%#lx,%u,%u,%u,%#lx\n", cpu, context_names[count_context(count)], count_line(count), count->pc,
		count->chain, count->reads, count->writes, count->bytes);
}

int lines_write_shared(FILE *out, const struct line_table *tables, unsigned int nr_tables,
		       bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	struct line_sums sums;
	bool whole = sum_lines(&sums, tables, nr_tables);

	fprintf(out, "cpu,context,line,pc,chain,reads,writes,bytes\n");
	for (unsigned int t = 0; whole && t < nr_tables; t++) {
		for (uint64_t i = 0; i < tables[t].capacity; i++) {
			const struct line_count *count = &tables[t].counts[i];
			const struct line_sum *sum;

			if (!was_touched(count))
				continue;
			sum = find_sum(&sums, count_line(count));
			if (is_stack(count_line(count)))
				stack_accesses[count_context(count)] += count->reads + count->writes;
			else if (sum->shared && sum->written)
				write_count(out, t, count);
		}
	}
	free(sums.sums);
	return whole && !ferror(out) ? 0 : -1;
}
