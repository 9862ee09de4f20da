// SPDX-License-Identifier: GPL-2.0-or-later
#include "lines.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4096

struct line_count {
	uint64_t key; /* line | context << 1 | 1: never 0 in a used entry */
	uint64_t pc;
	uint64_t bytes; /* a bit for each byte of the line that was touched */
	uint32_t reads, writes;
};

/* What all CPUs together did to a line. */
struct line_sum {
	uint64_t line;
	uint32_t first_table;
	uint8_t shared, written;
};

static uint64_t hash(uint64_t a, uint64_t b)
{
	uint64_t h = (a ^ b * 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9;

	return h ^ h >> 32;
}

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
	bigger = calloc(table->capacity * 2, sizeof(*bigger));
	if (!bigger)
		return false;
	for (uint64_t i = 0; i < table->capacity; i++)
		if (table->counts[i].key)
			*find(bigger, table->capacity * 2, table->counts[i].key, table->counts[i].pc) =
				table->counts[i];
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
	struct line_count *count = find(table->counts, table->capacity, key, access->pc);
	bool is_new = !count->key;

	table->accesses[access->context] += !access->again;
	if (is_new) {
		/* At most three quarters full, so that every probe ends. */
		if (table->used * 4 >= table->capacity * 3) {
			if (!grow(table)) {
				table->lost++;
				return false;
			}
			count = find(table->counts, table->capacity, key, access->pc);
		}
		table->used++;
		count->key = key;
		count->pc = access->pc;
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
	struct line_count *count = find(table->counts, table->capacity, key_of(access), access->pc);

	table->accesses[access->context] -= count->reads + count->writes;
	count->reads = count->writes = 0;
}

static struct line_sum *find_sum(struct line_sum *sums, uint64_t capacity, uint64_t line)
{
	uint64_t at = hash(line, 0) & (capacity - 1);

	while (sums[at].line && sums[at].line != line)
		at = (at + 1) & (capacity - 1);
	return &sums[at];
}

static struct line_sum *sum_lines(const struct line_table *tables, unsigned int nr_tables, uint64_t *capacity)
{
	struct line_sum *sums;
	uint64_t used = 0;

	for (unsigned int t = 0; t < nr_tables; t++)
		used += tables[t].used;
	for (*capacity = FIRST_CAPACITY; *capacity < used * 2;)
		*capacity *= 2;
	sums = calloc(*capacity, sizeof(*sums));
	for (unsigned int t = 0; sums && t < nr_tables; t++) {
		for (uint64_t i = 0; i < tables[t].capacity; i++) {
			const struct line_count *count = &tables[t].counts[i];
			struct line_sum *sum;

			if (!count->reads && !count->writes)
				continue;
			sum = find_sum(sums, *capacity, count_line(count));
			if (!sum->line) {
				sum->line = count_line(count);
				sum->first_table = t;
			}
			sum->shared |= sum->first_table != t;
			sum->written |= count->writes != 0;
		}
	}
	return sums;
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
	uint64_t capacity;
	struct line_sum *sums = sum_lines(tables, nr_tables, &capacity);

	if (!sums)
		return -1;
	fprintf(out, "cpu,context,line,pc,reads,writes,bytes\n");
	for (unsigned int t = 0; t < nr_tables; t++) {
		for (uint64_t i = 0; i < tables[t].capacity; i++) {
			const struct line_count *count = &tables[t].counts[i];
			const struct line_sum *sum;

			if (!count->reads && !count->writes)
				continue;
			sum = find_sum(sums, capacity, count_line(count));
			if (is_stack(count_line(count)))
				stack_accesses[count_context(count)] += count->reads + count->writes;
			else if (sum->shared && sum->written)
				write_count(out, t, count);
		}
	}
	free(sums);
	return ferror(out) ? -1 : 0;
}
