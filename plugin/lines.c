// SPDX-License-Identifier: GPL-2.0-or-later
#include "lines.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "hash.h"

#define FIRST_CAPACITY 4096
#define MOST_SUMS (1 << 20) /* at a time: what the result takes beside the tables stays small */

/* What all CPUs together did to a line. */
struct line_sum {
	uint64_t line; /* 0: unused */
	uint32_t first_table;
	uint8_t shared, written;
};

/* An open hash table of them: of all lines, or of one part of several that hold about as many each. */
struct line_sums {
	unsigned int part, nr_parts, line_bytes;
	struct line_sum *sums;
	uint64_t capacity, used;
};

const char *const context_names[NR_CONTEXTS] = { "operation", "interrupt", "kthread" };

static uint64_t count_line(const struct line_count *count)
{
	return count->key & ~(uint64_t)(LINE_BYTES - 1);
}

static enum context count_context(const struct line_count *count)
{
	return count->key >> 1 & 3;
}

/* Whole pages, and huge ones where there are: to find an address takes time too. */
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

static uint64_t hash_of(const struct line_count *count)
{
	return hash(count->key ^ (uint64_t)count->chain << 40, count->pc);
}

static struct line_count *find(struct line_count *counts, uint64_t capacity, const struct line_count *like)
{
	uint64_t at = hash_of(like) & (capacity - 1);

	while (counts[at].key &&
	       (counts[at].key != like->key || counts[at].pc != like->pc || counts[at].chain != like->chain))
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
			*find(bigger, table->capacity * 2, &table->counts[i]) = table->counts[i];
	munmap(table->counts, table->capacity * sizeof(*bigger));
	table->counts = bigger;
	table->capacity *= 2;
	return true;
}

static void settle(struct line_table *table, const struct line_count *count)
{
	struct line_count *entry = find(table->counts, table->capacity, count);

	table->accesses[count_context(count)] += count->reads + count->writes;
	if (!entry->key) {
		/* Half full, probes are short; full, they would not end. */
		if (table->used * 2 >= table->capacity && grow(table))
			entry = find(table->counts, table->capacity, count);
		if (table->used * 4 >= table->capacity * 3) {
			table->lost += count->reads + count->writes;
			return;
		}
		table->used++;
		entry->key = count->key;
		entry->pc = count->pc;
		entry->chain = count->chain;
	}
	entry->bytes |= count->bytes;
	entry->reads += count->reads;
	entry->writes += count->writes;
}

void lines_add(struct line_table *table, const struct line_count *count)
{
	struct line_count *pending = &table->pending[table->nr_added++ % NR_LINES_PENDING];
	const char *place = (const char *)&table->counts[hash_of(count) & (table->capacity - 1)];

	if (pending->key)
		settle(table, pending);
	*pending = *count;
	/* It may lie across two lines, or its place be taken. */
	__builtin_prefetch(place, 1);
	__builtin_prefetch(place + 64, 1);
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
	struct line_sums bigger = *table;

	bigger.capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY;
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

static uint64_t whole_line(const struct line_sums *table, const struct line_count *count)
{
	return count->key & ~(uint64_t)(table->line_bytes - 1);
}

static bool is_in_part(const struct line_sums *table, const struct line_count *count)
{
	return count->key && hash(whole_line(table, count), 1) % table->nr_parts == table->part;
}

static bool sum_lines(struct line_sums *result, const struct line_table *tables, unsigned int nr_tables)
{
	for (unsigned int t = 0; t < nr_tables; t++) {
		for (uint64_t i = 0; i < tables[t].capacity; i++) {
			const struct line_count *count = &tables[t].counts[i];
			struct line_sum *sum;

			if (!is_in_part(result, count))
				continue;
			if (result->used * 2 >= result->capacity && !grow_sums(result))
				return false;
			sum = find_sum(result, whole_line(result, count));
			if (!sum->line) {
				sum->line = whole_line(result, count);
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

static void write_part(FILE *out, const struct line_sums *sums, const struct line_table *tables, unsigned int nr_tables,
		       bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	for (unsigned int t = 0; t < nr_tables; t++) {
		for (uint64_t i = 0; i < tables[t].capacity; i++) {
			const struct line_count *count = &tables[t].counts[i];
			const struct line_sum *sum;

			if (!is_in_part(sums, count))
				continue;
			sum = find_sum(sums, whole_line(sums, count));
			if (is_stack(count_line(count)))
				stack_accesses[count_context(count)] += count->reads + count->writes;
			else if (sum->shared && sum->written)
				write_count(out, t, count);
		}
	}
}

int lines_write_shared(FILE *out, const struct line_table *tables, unsigned int nr_tables, unsigned int line_bytes,
		       bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	uint64_t most = 0;
	unsigned int nr_parts;
	bool whole = true;

	for (unsigned int t = 0; t < nr_tables; t++)
		most += tables[t].used;
	nr_parts = most / MOST_SUMS + 1;
	fprintf(out, "cpu,context,line,pc,chain,reads,writes,bytes\n");
	for (unsigned int part = 0; whole && part < nr_parts; part++) {
		struct line_sums sums = { .part = part, .nr_parts = nr_parts, .line_bytes = line_bytes };

		whole = sum_lines(&sums, tables, nr_tables);
		if (whole)
			write_part(out, &sums, tables, nr_tables, is_stack, stack_accesses);
		free(sums.sums);
	}
	return whole && !ferror(out) ? 0 : -1;
}
