/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef LINE_TOTAL_H
#define LINE_TOTAL_H

#include <stdbool.h>
#include <stdint.h>

/* What all CPUs together did to a line. */
struct line_total {
	uint32_t by; /* the first table that has it, counted from 1; 0: none */
	bool shared, written;
};

static inline void line_total_add(struct line_total *total, unsigned int table, bool written)
{
	if (!total->by)
		total->by = table + 1;
	total->shared |= total->by != table + 1;
	total->written |= written;
}

#endif
