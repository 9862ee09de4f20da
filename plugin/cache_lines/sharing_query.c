// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache_lines/sharing_query.h"

#include "cache_lines/line_total.h"

/* A line that a query is about. */
struct queried_line {
	uint64_t line; /* the key: with its lowest bit set, as 0 is none */
	struct line_total total; /* by operations */
};

static const struct hash_type queried_type = { sizeof(struct queried_line), 1 };

static uint64_t query_key(const struct sharing_query *query, uint64_t address)
{
	return (address & ~(uint64_t)(query->line_bytes - 1)) | 1;
}

void sharing_query_add(struct sharing_query *query, uint64_t address)
{
	uint64_t key = query_key(query, address);

	hash_add(&query->table, &queried_type, &key, 1);
}

static void resolve(struct sharing_query *query, unsigned int table, uint64_t line, bool written)
{
	uint64_t key = query_key(query, lines_address(line));
	struct queried_line *queried = NULL;

	if (lines_context(line) == CONTEXT_OPERATION)
		queried = hash_find(&query->table, &queried_type, &key);
	if (queried)
		line_total_add(&queried->total, table, written);
}

void sharing_query_resolve(struct sharing_query *query, struct line_table *const *tables, unsigned int nr_tables)
{
	if (!query->table.used)
		return;
	for (unsigned int t = 0; t < nr_tables; t++) {
		const struct line_sequence *seen;
		const struct line_count *count;

		hash_for_each(count, &tables[t]->counts, &line_count_type)
			resolve(query, t, count->line, count->writes);
		hash_for_each(seen, &tables[t]->sequences, &line_sequence_type)
			resolve(query, t, seen->line, sequence_of(seen->sequence)->writes);
	}
}

bool sharing_query_is_shared(const struct sharing_query *query, uint64_t address)
{
	uint64_t key = query_key(query, address);
	const struct queried_line *queried = hash_find(&query->table, &queried_type, &key);

	return queried && queried->total.shared && queried->total.written;
}

void sharing_query_free(struct sharing_query *query)
{
	hash_free(&query->table, &queried_type);
}
