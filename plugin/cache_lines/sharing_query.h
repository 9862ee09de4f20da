/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A query: which of these lines do operations of several CPUs touch, one of which writes? */
#ifndef SHARING_QUERY_H
#define SHARING_QUERY_H

#include <stdbool.h>
#include <stdint.h>

#include "cache_lines/lines.h"

struct sharing_query {
	unsigned int line_bytes;
	struct hash_table table; /* of struct queried_line; at first zero but for max_bytes */
};

/* 1. Add addresses. 2. Resolve, in one pass over all tables. 3. Look up the lines of these addresses. */
void sharing_query_add(struct sharing_query *query, uint64_t address);
void sharing_query_resolve(struct sharing_query *query, struct line_table *const *tables, unsigned int nr_tables);
bool sharing_query_is_shared(const struct sharing_query *query, uint64_t address);
void sharing_query_free(struct sharing_query *query);

#endif
