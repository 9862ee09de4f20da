// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache_lines/lines.h"

#include "cache_lines/line_total.h"
#include "counts/insns.h"
#include "lib/xalloc.h"

#define MAX_TOTALS (1 << 20) /* at a time: bounds the memory that writing the result takes */
#define TOTALS_BYTES (256ull << 20)
#define NR_PARTS 512 /* of a table, each a few pages of it */
#define NR_AHEAD 16 /* entries that are prefetched */

/* What all CPUs together did to two adjacent lines. A line that is as long as the pair is the first of them. */
struct pair_total {
	uint64_t pair; /* the key */
	struct line_total lines[2];
};

static const struct hash_type count_by_bytes_type = { sizeof(struct line_count), LINE_KEY_WORDS + 1 };
static const struct hash_type total_type = { sizeof(struct pair_total), 1 };

/* Totals of all lines, or of one of several parts of about the same size. */
struct line_totals {
	unsigned int part, nr_parts, line_bytes;
	bool only_operations;
	struct hash_table table; /* of struct pair_total */
};

void lines_init(struct line_table *table, uint64_t max_bytes)
{
	hash_free(&table->counts, &line_count_type);
	hash_free(&table->sequences, &line_sequence_type);
	free(table->added);
	*table = (struct line_table){
		.counts = { .max_bytes = max_bytes / 3 * 2 },
		.sequences = { .max_bytes = max_bytes / 3 },
	};
}

static void add_count(struct line_table *table, const struct line_count *count)
{
	const struct hash_type *type = table->by_bytes ? &count_by_bytes_type : &line_count_type;
	struct line_count *entry = hash_add(&table->counts, type, count, count->reads + count->writes);

	if (!entry)
		return;
	entry->bytes |= count->bytes;
	entry->reads += count->reads;
	entry->writes += count->writes;
}

/* Count each access of the sequence by its instruction. */
static void expand(struct line_table *table, const struct line_sequence *seen)
{
	const struct sequence *sequence;

	for (sequence_id id = seen->sequence; id; id = sequence->before) {
		sequence = sequence_of(id);
		add_count(table, &(struct line_count){
			.line = seen->line,
			.insn = sequence->insn,
			.chain = sequence->chain,
			.bytes = sequence->effect.bytes,
			.reads = sequence->effect.reads * seen->times,
			.writes = sequence->effect.writes * seen->times,
		});
	}
}

void lines_expand(struct line_table *table)
{
	const struct line_sequence *seen;

	hash_for_each(seen, &table->sequences, &line_sequence_type)
		expand(table, seen);
	hash_clear(&table->sequences, &line_sequence_type);
}

static struct line_sequence *find_room(struct line_table *table, const struct line_sequence *seen, uint64_t hash)
{
	return hash_add_hashed(&table->sequences, &line_sequence_type, seen, hash, 0);
}

static void add(struct line_table *table, const struct line_sequence *seen, uint64_t hash)
{
	uint64_t accesses = sequence_of(seen->sequence)->accesses * seen->times;
	struct line_sequence *entry = find_room(table, seen, hash);

	table->accesses[lines_context(seen->line)] += accesses;
	if (!entry) {
		lines_expand(table);
		entry = find_room(table, seen, hash);
	}
	if (entry)
		entry->times += seen->times;
	else
		table->counts.lost += accesses;
}

/* The numbers of what was added, roughly in the order of their places in the table. `hashes`: theirs. */
static void order_by_place(const struct line_table *table, const uint64_t *hashes, uint16_t *order)
{
	/* A small table has fewer parts. A table without memory has one. */
	uint64_t last = table->sequences.capacity ? table->sequences.capacity - 1 : 0;
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
	/* All tables share them: one thread runs all CPUs. */
	static uint64_t hashes[NR_LINES_ADDED];
	static uint16_t order[NR_LINES_ADDED];

	for (unsigned int i = 0; i < table->nr_added; i++)
		hashes[i] = hash((const hash_word *)&table->added[i], line_sequence_type.key_words);
	order_by_place(table, hashes, order);
	for (unsigned int i = 0; i < table->nr_added; i++) {
		if (i + NR_AHEAD < table->nr_added)
			hash_prefetch(&table->sequences, &line_sequence_type, hashes[order[i + NR_AHEAD]]);
		add(table, &table->added[order[i]], hashes[order[i]]);
	}
	table->nr_added = 0;
}

void lines_add(struct line_table *table, uint64_t key, sequence_id sequence, uint32_t times)
{
	if (!table->added)
		table->added = xcalloc(NR_LINES_ADDED, sizeof(*table->added));
	table->added[table->nr_added++] = (struct line_sequence){ key, sequence, times };
	if (table->nr_added == NR_LINES_ADDED)
		lines_flush(table);
}

static uint64_t pair_of(uint64_t key)
{
	return key & ~(uint64_t)(PAIR_BYTES - 1);
}

static struct line_total *line_in(const struct line_totals *totals, struct pair_total *pair, uint64_t key)
{
	return &pair->lines[(lines_address(key) - pair->pair) / totals->line_bytes];
}

static bool is_in_part(const struct line_totals *totals, uint64_t key)
{
	uint64_t pair = pair_of(key);

	if (totals->only_operations && lines_context(key) != CONTEXT_OPERATION)
		return false;
	return totals->nr_parts == 1 || (hash(&pair, 1) >> 32) % totals->nr_parts == totals->part;
}

/* A walk over a table whose entries begin with their lines. The totals of the lines ahead are prefetched. */
struct line_walk {
	const struct hash_table *table, *totals;
	const struct hash_type *type;
	const uint64_t *next, *ahead;
};

static void go_ahead(struct line_walk *walk)
{
	uint64_t pair;

	walk->ahead = hash_next(walk->table, walk->type, walk->ahead);
	if (!walk->ahead)
		return;
	pair = pair_of(*walk->ahead);
	hash_prefetch(walk->totals, &total_type, hash(&pair, total_type.key_words));
}

static struct line_walk walk_lines(const struct hash_table *table, const struct hash_type *type,
				   const struct line_totals *totals)
{
	struct line_walk walk = { .table = table, .type = type, .totals = &totals->table };

	go_ahead(&walk);
	for (int i = 1; i < NR_AHEAD && walk.ahead; i++)
		go_ahead(&walk);
	walk.next = hash_next(walk.table, walk.type, NULL);
	return walk;
}

static const void *next_line(struct line_walk *walk)
{
	const void *line = walk->next;

	if (line)
		walk->next = hash_next(walk->table, walk->type, line);
	if (walk->ahead)
		go_ahead(walk);
	return line;
}

static bool add_line(struct line_totals *totals, unsigned int table, uint64_t key, bool written)
{
	uint64_t pair_key = pair_of(key);
	struct pair_total *pair;

	if (!is_in_part(totals, key))
		return true;
	pair = hash_add(&totals->table, &total_type, &pair_key, 1);
	if (pair)
		line_total_add(line_in(totals, pair, key), table, written);
	return pair;
}

static bool add_totals(struct line_totals *totals, struct line_table *const *tables, unsigned int nr_tables)
{
	bool whole = true;

	for (unsigned int t = 0; t < nr_tables; t++) {
		struct line_walk walk = walk_lines(&tables[t]->counts, &line_count_type, totals);
		const struct line_sequence *seen;
		const struct line_count *count;

		while (whole && (count = next_line(&walk)))
			whole = add_line(totals, t, count->line, count->writes);
		walk = walk_lines(&tables[t]->sequences, &line_sequence_type, totals);
		while (whole && (seen = next_line(&walk)))
			whole = add_line(totals, t, seen->line, sequence_of(seen->sequence)->writes);
	}
	return whole;
}

/* Whether several CPUs touched the line, or together both lines of the pair, and one of them wrote. */
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
		.line = lines_address(count->line),
		.pc = insns_pc(count->insn),
		.bytes = count->bytes,
		.chain = count->chain,
		.reads = count->reads,
		.writes = count->writes,
		.cpu = cpu,
		.context = lines_context(count->line),
	};

	fwrite(&row, sizeof(row), 1, out);
}

static bool is_line_shared(const struct line_totals *totals, uint64_t key)
{
	uint64_t pair_key = pair_of(key);
	struct pair_total *pair = hash_find(&totals->table, &total_type, &pair_key);

	return is_shared(pair, line_in(totals, pair, key));
}

/* Whether a line belongs to the part and to no stack. Of a task's stack, accesses are only added up. */
static bool is_reported(const struct line_totals *totals, uint64_t key, uint64_t accesses,
			bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	if (!is_in_part(totals, key))
		return false;
	if (!is_stack(lines_address(key)))
		return true;
	stack_accesses[lines_context(key)] += accesses;
	return false;
}

/* Only the rows that are written need the instructions: they go to the table `to`, which may be the same. */
static void expand_part(const struct line_totals *totals, const struct line_table *table, struct line_table *to, bool all,
			bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	struct line_walk walk = walk_lines(&table->sequences, &line_sequence_type, totals);
	const struct line_sequence *seen;

	while ((seen = next_line(&walk)))
		if (is_reported(totals, seen->line, seen->times * sequence_of(seen->sequence)->accesses, is_stack,
				stack_accesses) &&
		    (all || is_line_shared(totals, seen->line)))
			expand(to, seen);
}

static void write_part(FILE *out, FILE *others, const struct line_totals *totals, struct line_table *const *tables,
		       unsigned int nr_tables, bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	for (unsigned int t = 0; t < nr_tables; t++) {
		struct line_walk walk = walk_lines(&tables[t]->counts, &line_count_type, totals);
		const struct line_count *count;

		while ((count = next_line(&walk))) {
			if (!is_reported(totals, count->line, count->reads + count->writes, is_stack, stack_accesses))
				continue;
			if (is_line_shared(totals, count->line))
				write_row(out, t, count);
			else if (others)
				write_row(others, t, count);
		}
	}
}

/* How many parts the lines are looked at in. */
static unsigned int parts_of(struct line_table *const *tables, unsigned int nr_tables)
{
	uint64_t most = 0;

	for (unsigned int t = 0; t < nr_tables; t++)
		most += tables[t]->counts.used + tables[t]->sequences.used;
	return most / MAX_TOTALS + 1;
}

int lines_write_shared(FILE *out, FILE *others, struct line_table *const *tables, unsigned int nr_tables,
		       unsigned int line_bytes, bool (*is_stack)(uint64_t address),
		       uint64_t stack_accesses[NR_CONTEXTS])
{
	unsigned int nr_parts = parts_of(tables, nr_tables);
	bool whole = true;

	for (unsigned int part = 0; whole && part < nr_parts; part++) {
		struct line_totals totals = {
			.part = part,
			.nr_parts = nr_parts,
			.line_bytes = line_bytes,
			.table = { .max_bytes = TOTALS_BYTES },
		};

		whole = add_totals(&totals, tables, nr_tables);
		for (unsigned int t = 0; whole && t < nr_tables; t++)
			expand_part(&totals, tables[t], tables[t], others, is_stack, stack_accesses);
		if (whole)
			write_part(out, others, &totals, tables, nr_tables, is_stack, stack_accesses);
		hash_free(&totals.table, &total_type);
	}
	return whole && !ferror(out) && !(others && ferror(others)) ? 0 : -1;
}

static void keep_part(const struct line_totals *totals, const struct line_table *table, struct line_table *kept,
		      bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	struct line_walk walk = walk_lines(&table->counts, &line_count_type, totals);
	const struct line_count *count;

	while ((count = next_line(&walk)))
		if (is_reported(totals, count->line, count->reads + count->writes, is_stack, stack_accesses) &&
		    is_line_shared(totals, count->line))
			add_count(kept, count);
	expand_part(totals, table, kept, false, is_stack, stack_accesses);
}

bool lines_keep_shared(struct line_table *const *tables, struct line_table *const *kept, unsigned int nr_tables,
		       unsigned int line_bytes, bool (*is_stack)(uint64_t address), uint64_t stack_accesses[NR_CONTEXTS])
{
	/* Kept: it is made very often. */
	static struct line_totals totals = { .table = { .max_bytes = TOTALS_BYTES } };
	bool whole = true;

	totals.line_bytes = line_bytes;
	totals.nr_parts = parts_of(tables, nr_tables);
	for (totals.part = 0; whole && totals.part < totals.nr_parts; totals.part++) {
		hash_clear(&totals.table, &total_type);
		whole = add_totals(&totals, tables, nr_tables);
		for (unsigned int t = 0; whole && t < nr_tables; t++)
			keep_part(&totals, tables[t], kept[t], is_stack, stack_accesses);
	}
	for (unsigned int t = 0; t < nr_tables; t++) {
		hash_clear(&tables[t]->counts, &line_count_type);
		hash_clear(&tables[t]->sequences, &line_sequence_type);
	}
	return whole;
}

static void write_test(FILE *out, uint64_t test, const struct line_totals *totals, struct line_table *const *tables,
		       unsigned int nr_tables, bool (*is_stack)(uint64_t address))
{
	for (unsigned int t = 0; t < nr_tables; t++) {
		const struct line_count *count;

		hash_for_each(count, &tables[t]->counts, &line_count_type) {
			if (!is_in_part(totals, count->line) || is_stack(lines_address(count->line)) ||
			    !is_line_shared(totals, count->line))
				continue;
			fprintf(out, "%lu,%u,%s,%#lx,%#lx,%u,%u,%u,%#lx\n", test, t,
				context_name(lines_context(count->line)), lines_address(count->line), insns_pc(count->insn),
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
		.only_operations = true,
		.table = { .max_bytes = TOTALS_BYTES },
	};
	bool whole;

	for (unsigned int t = 0; t < nr_tables; t++)
		lines_expand(tables[t]);
	whole = add_totals(&totals, tables, nr_tables);
	if (whole)
		write_test(out, test, &totals, tables, nr_tables, is_stack);
	hash_free(&totals.table, &total_type);
	return whole && !ferror(out) ? 0 : -1;
}

void lines_clear(struct line_table *table)
{
	hash_clear(&table->counts, &line_count_type);
	hash_clear(&table->sequences, &line_sequence_type);
	memset(table->accesses, 0, sizeof(table->accesses));
}
