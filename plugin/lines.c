// SPDX-License-Identifier: GPL-2.0-or-later
#include "lines.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define FIRST_CAPACITY 4096

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

static uint64_t hash(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ b * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;

	return h ^ h >> 32;
}

static uint64_t count_line(const struct line_count *count)
{
	return count->key & ~(uint64_t)(LINE_BYTES - 1);
}

static enum context count_context(const struct line_count *count)
{
	return count->key >> 1 & 3;
}

/* Whole pages, so that no entry lies across two lines; huge ones where there are, as addresses are looked up too. */
static struct line_count *allocate(uint64_t capacity)
{
	size_t bytes = capacity * sizeof(struct line_count);
	void *counts = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (counts == MAP_FAILED)
		return NULL;
	madvise(counts, bytes, MADV_HUGEPAGE);
	return counts;
}

void lines_init(struct line_table *table, uint64_t max_bytes)
{
	uint64_t limit = FIRST_CAPACITY;

	/* Growing needs the old table beside the new one. */
	while (limit * 2 * sizeof(struct line_count) * 3 / 2 <= max_bytes)
		limit *= 2;
	*table = (struct line_table){
		.counts = allocate(FIRST_CAPACITY),
		.capacity = FIRST_CAPACITY,
		.limit = limit,
	};
}

static struct line_count *find(struct line_count *counts, uint64_t capacity, uint64_t key, uint64_t pc)
{
	uint64_t at = hash(key, pc) & (capacity - 1);

	while (counts[at].key && (counts[at].key != key || counts[at].pc != pc))
		at = (at + 1) & (capacity - 1);
	return &counts[at];
}

static bool grow(struct line_table *table)
{
	struct line_count *bigger;

	if (table->capacity >= table->limit)
		return false;
	bigger = allocate(table->capacity * 2);
	if (!bigger)
		return false;
	for (uint64_t i = 0; i < table->capacity; i++)
		if (table->counts[i].key)
			*find(bigger, table->capacity * 2, table->counts[i].key, table->counts[i].pc) =
				table->counts[i];
	munmap(table->counts, table->capacity * sizeof(*bigger));
	table->counts = bigger;
	table->capacity *= 2;
	return true;
}

static void settle(struct line_table *table, const struct line_count *count)
{
	struct line_count *entry = find(table->counts, table->capacity, count->key, count->pc);

	table->accesses[count_context(count)] += count->reads + count->writes;
	if (!entry->key) {
		/* Half full, probes are short; full, they would not end. */
		if (table->used * 2 >= table->capacity && grow(table))
			entry = find(table->counts, table->capacity, count->key, count->pc);
		if (table->used * 4 >= table->capacity * 3) {
			table->lost += count->reads + count->writes;
			return;
		}
		table->used++;
		entry->key = count->key;
		entry->pc = count->pc;
	}
	entry->bytes |= count->bytes;
	entry->reads += count->reads;
	entry->writes += count->writes;
}

void lines_add(struct line_table *table, const struct line_count *count)
{
	struct line_count *pending = &table->pending[table->nr_added++ % NR_LINES_PENDING];

	if (pending->key)
		settle(table, pending);
	*pending = *count;
	__builtin_prefetch(&table->counts[hash(count->key, count->pc) & (table->capacity - 1)], 1);
}

void lines_settle(struct line_table *table)
{
	for (int i = 0; i < NR_LINES_PENDING; i++) {
		if (table->pending[i].key)
			settle(table, &table->pending[i]);
		table->pending[i].key = 0;
	}
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

static bool sum_lines(struct line_sums *result, const struct line_table *tables, unsigned int nr_tables)
{
	*result = (struct line_sums){ 0 };
	for (unsigned int t = 0; t < nr_tables; t++) {
		for (uint64_t i = 0; i < tables[t].capacity; i++) {
			const struct line_count *count = &tables[t].counts[i];
			struct line_sum *sum;

			if (!count->key)
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
	static const char *const names[] = { "operation", "interrupt", "kthread" };

	fprintf(out, "%u,%s,%#lx,%#lx,%u,%u,%#lx\n", cpu, names[count_context(count)], count_line(count), count->pc,
		count->reads, count->writes, count->bytes);
}

int lines_write_shared(FILE *out, const struct line_table *tables, unsigned int nr_tables,
		       bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	struct line_sums sums;
	bool whole = sum_lines(&sums, tables, nr_tables);

	fprintf(out, "cpu,context,line,pc,reads,writes,bytes\n");
	for (unsigned int t = 0; whole && t < nr_tables; t++) {
		for (uint64_t i = 0; i < tables[t].capacity; i++) {
			const struct line_count *count = &tables[t].counts[i];
			const struct line_sum *sum;

			if (!count->key)
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
