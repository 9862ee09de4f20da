// SPDX-License-Identifier: GPL-2.0-or-later
#include "cache_lines/open_lines.h"

/* Add the run of equal sequences to the table. */
static void flush_run(struct line_table *table, struct open_line *open)
{
	if (open->times)
		lines_add(table, open->line & ~OPERATION_MASK, open->last, open->times);
	open->times = 0;
}

static void end_sequence(struct line_table *table, struct open_line *open)
{
	if (!open->sequence)
		return;
	if (open->sequence != open->last)
		flush_run(table, open);
	open->last = open->sequence;
	open->times++;
	open->sequence = 0;
}

static void close_line(struct line_table *table, struct open_line *open)
{
	end_sequence(table, open);
	flush_run(table, open);
	*open = (struct open_line){ 0 };
}

bool open_lines_add(struct open_lines *lines, struct line_table *table, uint64_t key, const struct access *access,
		    const struct effect *effect)
{
	struct open_line *open = open_lines_place(lines, key);
	bool is_new;

	if (!open_line_is(open, key)) {
		/* The first of the two makes room, unless this operation has touched it. */
		if (!open[-1].line || (open[-1].line & OPERATION_MASK) != lines->operation)
			open--;
		close_line(table, open);
	} else if (open->line != (key | lines->operation))
		end_sequence(table, open);
	open->line = key | lines->operation;
	if (!sequence_go_on(&open->sequence, access, effect, &is_new))
		return false;
	if (is_new && sequence_ends(open->sequence))
		end_sequence(table, open);
	return true;
}

void open_lines_close(struct open_lines *lines, struct line_table *table)
{
	for (unsigned int i = 0; i < NR_OPEN_LINES; i++)
		if (lines->places[i].line)
			close_line(table, &lines->places[i]);
}
