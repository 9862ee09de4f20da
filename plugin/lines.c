// SPDX-License-Identifier: GPL-2.0-or-later
#include "lines.h"

#include "insns.h"
#include "xalloc.h"

#define MAX_TOTALS (1 << 20) /* at a time: what the result takes beside the tables stays small */
#define TOTALS_BYTES (256ull << 20)
#define NR_PARTS 512 /* of a table, each a few pages of it */
#define NR_AHEAD 16 /* whose memory is on its way */

_Static_assert(64 % sizeof(struct line_count) == 0, "an entry lies across two lines of the host's");

/* What all CPUs together did to a line. */
struct line_total {
	uint32_t by; /* the first table that has it, counted from 1; 0: none */
	bool shared, written;
};

/* What they did to two lines side by side. Where a line is as long as a pair, it is the first of them. */
struct pair_total {
	uint64_t pair; /* the key */
	struct line_total lines[2];
};

/* A line that was asked after. */
struct asked_line {
	uint64_t line; /* the key: with its lowest bit set, as 0 is none */
	struct line_total total; /* of operations */
};

static const struct hash_type count_type = { sizeof(struct line_count), LINE_KEY_WORDS };
static const struct hash_type total_type = { sizeof(struct pair_total), 1 };
static const struct hash_type asked_type = { sizeof(struct asked_line), 1 };

/* Of all lines, or of one part of several that hold about as many each. */
struct line_totals {
	unsigned int part, nr_parts, line_bytes;
	bool of_operations; /* alone */
	struct hash_table table; /* of struct pair_total */
};

static uint64_t count_line(const struct line_count *count)
{
	return count->line & ~(uint64_t)(LINE_BYTES - 1);
}

static enum context count_context(const struct line_count *count)
{
	return count->line >> 1 & 3;
}

void lines_init(struct line_table *table, uint64_t max_bytes)
{
	hash_free(&table->counts, &count_type);
	free(table->added);
	*table = (struct line_table){
		.counts = { .max_bytes = max_bytes },
	};
}

static void add(struct line_table *table, const struct line_count *count, uint64_t hash)
{
	uint32_t accesses = count->reads + count->writes;
	struct line_count *entry = hash_add_hashed(&table->counts, &count_type, count, hash, accesses);

	table->accesses[count_context(count)] += accesses;
	if (!entry)
		return;
	entry->bytes |= count->bytes;
	entry->reads += count->reads;
	entry->writes += count->writes;
}

/* Numbers of what was added, in the order of where the table has them, roughly. `hashes`: of each of them. */
static void order_by_place(const struct line_table *table, const uint64_t *hashes, uint16_t *order)
{
	/* A small table has fewer parts, one without memory yet one. */
	uint64_t last = table->counts.capacity ? table->counts.capacity - 1 : 0;
	unsigned int ends[NR_PARTS + 1] = { 0 }, shift = 0;

	while (last >> shift >= NR_PARTS)
		shift++;
	for (unsigned int i = 0; i < table->nr_added; i++)
		ends[((hashes[i] & last) >> shift) + 1]++;
	for (unsigned int part = 0; part < NR_PARTS; part++)
		ends[part + 1] += ends[part];
	for (unsigned int i = 0; i < table->nr_added; i++)
		order[ends[(hashes[i] & last) >> shift]++] = i;
}

void lines_flush(struct line_table *table)
{
	/* Of all tables: one thread runs all CPUs. */
	static uint64_t hashes[NR_LINES_ADDED];
	static uint16_t order[NR_LINES_ADDED];

	for (unsigned int i = 0; i < table->nr_added; i++)
		hashes[i] = hash((const hash_word *)&table->added[i], count_type.key_words);
	order_by_place(table, hashes, order);
	for (unsigned int i = 0; i < table->nr_added; i++) {
		if (i + NR_AHEAD < table->nr_added)
			hash_prefetch(&table->counts, &count_type, hashes[order[i + NR_AHEAD]]);
		add(table, &table->added[order[i]], hashes[order[i]]);
	}
	table->nr_added = 0;
}

void lines_add(struct line_table *table, const struct line_count *count)
{
	if (!table->added)
		table->added = xcalloc(NR_LINES_ADDED, sizeof(*table->added));
	table->added[table->nr_added++] = *count;
	if (table->nr_added == NR_LINES_ADDED)
		lines_flush(table);
}

static uint64_t pair_of(const struct line_count *count)
{
	return count->line & ~(uint64_t)(PAIR_BYTES - 1);
}

static struct line_total *line_in(const struct line_totals *totals, struct pair_total *pair,
				  const struct line_count *count)
{
	return &pair->lines[(count_line(count) - pair->pair) / totals->line_bytes];
}

static bool is_in_part(const struct line_totals *totals, const struct line_count *count)
{
	uint64_t pair = pair_of(count);

	if (totals->of_operations && count_context(count) != CONTEXT_OPERATION)
		return false;
	return totals->nr_parts == 1 || (hash(&pair, 1) >> 32) % totals->nr_parts == totals->part;
}

static void add_total(struct line_total *total, unsigned int table, const struct line_count *count)
{
	if (!total->by)
		total->by = table + 1;
	total->shared |= total->by != table + 1;
	total->written |= count->writes != 0;
}

/* The counts of a table, one after the other, with the places of their pairs on their way from memory. */
struct count_walk {
	const struct hash_table *counts, *totals;
	const struct line_count *next, *ahead;
};

static void go_ahead(struct count_walk *walk)
{
	uint64_t pair;

	walk->ahead = hash_next(walk->counts, &count_type, walk->ahead);
	if (!walk->ahead)
		return;
	pair = pair_of(walk->ahead);
	hash_prefetch(walk->totals, &total_type, hash(&pair, total_type.key_words));
}

static struct count_walk walk_counts(const struct line_table *table, const struct line_totals *totals)
{
	struct count_walk walk = { .counts = &table->counts, .totals = &totals->table };

	go_ahead(&walk);
	for (int i = 1; i < NR_AHEAD && walk.ahead; i++)
		go_ahead(&walk);
	walk.next = hash_next(walk.counts, &count_type, NULL);
	return walk;
}

static const struct line_count *next_count(struct count_walk *walk)
{
	const struct line_count *count = walk->next;

	if (count)
		walk->next = hash_next(walk->counts, &count_type, count);
	if (walk->ahead)
		go_ahead(walk);
	return count;
}

static bool add_totals(struct line_totals *totals, struct line_table *const *tables, unsigned int nr_tables)
{
	for (unsigned int t = 0; t < nr_tables; t++) {
		struct count_walk walk = walk_counts(tables[t], totals);
		const struct line_count *count;

		while ((count = next_count(&walk))) {
			uint64_t key = pair_of(count);
			struct pair_total *pair;

			if (!is_in_part(totals, count))
				continue;
			pair = hash_add(&totals->table, &total_type, &key, 1);
			if (!pair)
				return false;
			add_total(line_in(totals, pair, count), t, count);
		}
	}
	return true;
}

/* Whether several CPUs touched one line of the pair, or each one of them, and one wrote. */
static bool is_shared(const struct pair_total *pair, const struct line_total *line)
{
	const struct line_total *one = &pair->lines[0], *other = &pair->lines[1];

	if (line->shared && line->written)
		return true;
	return one->by && other->by && (one->shared || other->shared || one->by != other->by) &&
	       (one->written || other->written);
}

static void write_row(FILE *out, unsigned int cpu, const struct line_count *count)
{
	const struct line_row row = {
		.line = count_line(count),
		.pc = insns_pc(count->insn),
		.bytes = count->bytes,
		.chain = count->chain,
		.reads = count->reads,
		.writes = count->writes,
		.cpu = cpu,
		.context = count_context(count),
	};

	fwrite(&row, sizeof(row), 1, out);
}

static void write_part(FILE *out, const struct line_totals *totals, struct line_table *const *tables,
		       unsigned int nr_tables, bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	for (unsigned int t = 0; t < nr_tables; t++) {
		struct count_walk walk = walk_counts(tables[t], totals);
		const struct line_count *count;

		while ((count = next_count(&walk))) {
			uint64_t key = pair_of(count);
			struct pair_total *pair;

			if (!is_in_part(totals, count))
				continue;
			pair = hash_find(&totals->table, &total_type, &key);
			if (is_stack(count_line(count)))
				stack_accesses[count_context(count)] += count->reads + count->writes;
			else if (is_shared(pair, line_in(totals, pair, count)))
				write_row(out, t, count);
		}
	}
}

int lines_write_shared(FILE *out, struct line_table *const *tables, unsigned int nr_tables, unsigned int line_bytes,
		       bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	uint64_t most = 0;
	unsigned int nr_parts;
	bool whole = true;

	for (unsigned int t = 0; t < nr_tables; t++)
		most += tables[t]->counts.used;
	nr_parts = most / MAX_TOTALS + 1;
	for (unsigned int part = 0; whole && part < nr_parts; part++) {
		struct line_totals totals = {
			.part = part,
			.nr_parts = nr_parts,
			.line_bytes = line_bytes,
			.table = { .max_bytes = TOTALS_BYTES },
		};

		whole = add_totals(&totals, tables, nr_tables);
		if (whole)
			write_part(out, &totals, tables, nr_tables, is_stack, stack_accesses);
		hash_free(&totals.table, &total_type);
	}
	return whole && !ferror(out) ? 0 : -1;
}

static void write_test(FILE *out, uint64_t test, const struct line_totals *totals, struct line_table *const *tables,
		       unsigned int nr_tables, bool (*is_stack)(uint64_t address))
{
	for (unsigned int t = 0; t < nr_tables; t++) {
		const struct line_count *count;

		hash_for_each(count, &tables[t]->counts, &count_type) {
			uint64_t key = pair_of(count);
			struct pair_total *pair = hash_find(&totals->table, &total_type, &key);

			if (!is_in_part(totals, count) || is_stack(count_line(count)) ||
			    !is_shared(pair, line_in(totals, pair, count)))
				continue;
			fprintf(out, "%lu,%u,%s,%#lx,%#lx,%u,%u,%u,%#lx\n", test, t,
				context_name(count_context(count)), count_line(count), insns_pc(count->insn),
				count->chain, count->reads, count->writes, count->bytes);
		}
	}
}

int lines_write_test(FILE *out, uint64_t test, struct line_table *const *tables, unsigned int nr_tables,
		     unsigned int line_bytes, bool (*is_stack)(uint64_t address))
{
	struct line_totals totals = {
		.nr_parts = 1,
		.line_bytes = line_bytes,
		.of_operations = true,
		.table = { .max_bytes = TOTALS_BYTES },
	};
	bool whole = add_totals(&totals, tables, nr_tables);

	if (whole)
		write_test(out, test, &totals, tables, nr_tables, is_stack);
	hash_free(&totals.table, &total_type);
	return whole && !ferror(out) ? 0 : -1;
}

void lines_clear(struct line_table *table)
{
	hash_clear(&table->counts, &count_type);
	memset(table->accesses, 0, sizeof(table->accesses));
}

static uint64_t asked_key(const struct shared_lines *lines, uint64_t address)
{
	return (address & ~(uint64_t)(lines->line_bytes - 1)) | 1;
}

void lines_ask(struct shared_lines *lines, uint64_t address)
{
	uint64_t key = asked_key(lines, address);

	hash_add(&lines->table, &asked_type, &key, 1);
}

void lines_answer(struct shared_lines *lines, struct line_table *const *tables, unsigned int nr_tables)
{
	if (!lines->table.used)
		return;
	for (unsigned int t = 0; t < nr_tables; t++) {
		const struct line_count *count;

		hash_for_each(count, &tables[t]->counts, &count_type) {
			uint64_t key = asked_key(lines, count_line(count));
			struct asked_line *asked = NULL;

			if (count_context(count) == CONTEXT_OPERATION)
				asked = hash_find(&lines->table, &asked_type, &key);
			if (asked)
				add_total(&asked->total, t, count);
		}
	}
}

bool lines_is_shared(const struct shared_lines *lines, uint64_t address)
{
	uint64_t key = asked_key(lines, address);
	const struct asked_line *asked = hash_find(&lines->table, &asked_type, &key);

	return asked && asked->total.shared && asked->total.written;
}

void lines_forget(struct shared_lines *lines)
{
	hash_free(&lines->table, &asked_type);
}
