// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Drives the recorder's tables of lines. Standard input, a command a line:
 *
 *	tables N BYTES		how many, and how much memory each may take
 *	line BYTES		how large a line is; 64 if not said
 *	add TABLE CONTEXT ADDRESS PC SIZE_SHIFT READS WRITES
 *	fill FIRST COUNT	in each table, of as many lines that no other table has
 *	stack ADDRESS		the line is on a task's stack
 *	window			a program's window ends: what is shared in it is kept
 *	bytes			accesses to other bytes are other counts, and lines that are not shared are written, too
 *	test NUMBER		write what lines_write_test() does, and begin again
 *
 * Standard output: what that and, as CSV, in the end lines_write_shared() write. Standard error: what it and the tables say of the rest.
 */
#include <stdlib.h>
#include <string.h>

#include "../plugin/cache_lines/lines.h"
#include "../plugin/counts/insns.h"

#define MAX_TABLES 64

static struct line_table tables[MAX_TABLES], kept[MAX_TABLES];
static bool has_windows, by_bytes;
static uint64_t stack_accesses[NR_CONTEXTS];
static unsigned int nr_tables;
static unsigned int line_bytes = LINE_BYTES;
static uint64_t stack;

static bool is_stack(uint64_t address)
{
	return address == stack;
}

/* A sequence of its own, of one access, that stands for so many. */
static sequence_id sequence(uint64_t address, uint64_t pc, unsigned int size_shift, unsigned int reads,
			    unsigned int writes)
{
	const struct access access = {
		.insn = access_insn(insns_number(pc)) | (address & (LINE_BYTES - 1)),
		.meminfo_or_part = size_shift << 28 | reads << 14 | writes,
	};
	const struct effect effect = { lines_bytes(address, size_shift), reads, writes };
	sequence_id sequence = 0;
	bool is_new;

	if (!sequence_go_on(&sequence, &access, &effect, &is_new))
		exit(1);
	return sequence;
}

static void add(unsigned int table, unsigned int context, uint64_t address, uint64_t pc, unsigned int size_shift,
		unsigned int reads, unsigned int writes)
{
	lines_add(&tables[table], lines_key(address, context), sequence(address, pc, size_shift, reads, writes), 1);
}

static void fill(uint64_t first, uint64_t count)
{
	for (unsigned int t = 0; t < nr_tables; t++)
		for (uint64_t i = 0; i < count; i++)
			add(t, CONTEXT_OPERATION, first + (t * count + i) * LINE_BYTES, 1, 3, 0, 1);
}

static void write_test(unsigned long number)
{
	struct line_table *all[MAX_TABLES];

	for (unsigned int t = 0; t < nr_tables; t++) {
		lines_flush(&tables[t]);
		all[t] = &tables[t];
	}
	if (lines_write_test(stdout, number, all, nr_tables, line_bytes, is_stack))
		exit(1);
	for (unsigned int t = 0; t < nr_tables; t++)
		lines_clear(&tables[t]);
}

static void end_window(void)
{
	struct line_table *all[MAX_TABLES], *all_kept[MAX_TABLES];

	for (unsigned int t = 0; t < nr_tables; t++) {
		lines_flush(&tables[t]);
		all[t] = &tables[t];
		all_kept[t] = &kept[t];
	}
	if (!lines_keep_shared(all, all_kept, nr_tables, line_bytes, is_stack, stack_accesses))
		exit(1);
	has_windows = true;
}

static void obey(const char *line)
{
	unsigned int table, context, size_shift, reads, writes;
	uint64_t address, pc, bytes, count;

	if (sscanf(line, "add %u %u %lx %lx %u %u %u", &table, &context, &address, &pc, &size_shift, &reads,
		   &writes) == 7) {
		add(table, context, address, pc, size_shift, reads, writes);
	} else if (sscanf(line, "tables %u %lu", &nr_tables, &bytes) == 2) {
		for (unsigned int t = 0; t < nr_tables; t++) {
			lines_init(&tables[t], bytes);
			lines_init(&kept[t], bytes);
			tables[t].by_bytes = by_bytes;
		}
	} else if (sscanf(line, "fill %lx %lu", &address, &count) == 2) {
		fill(address, count);
	} else if (!strcmp(line, "bytes\n")) {
		by_bytes = true;
	} else if (!strcmp(line, "window\n") || !strcmp(line, "window")) {
		end_window();
	} else if (sscanf(line, "test %lu", &count) == 1) {
		write_test(count);
	} else if (sscanf(line, "stack %lx", &stack) != 1 && sscanf(line, "line %u", &line_bytes) != 1) {
		fprintf(stderr, "what is '%s'?\n", line);
		exit(1);
	}
}

static int print(FILE *rows)
{
	struct line_row row;

	rewind(rows);
	printf("cpu,context,line,pc,chain,reads,writes,bytes\n");
	while (fread(&row, sizeof(row), 1, rows) == 1)
		printf("%u,%s,%#lx,%#lx,%u,%u,%u,%#lx\n", row.cpu, context_name(row.context), row.line, row.pc,
		       row.chain, row.reads, row.writes, row.bytes);
	return fclose(rows);
}

static int write_shared(struct line_table *const *all)
{
	FILE *rows = tmpfile(), *others = by_bytes ? tmpfile() : NULL;

	if (!rows || lines_write_shared(rows, others, all, nr_tables, line_bytes, is_stack, stack_accesses))
		return -1;
	return print(rows) || (others && print(others));
}

static void write_numbers(const char *name, const uint64_t numbers[NR_CONTEXTS])
{
	fprintf(stderr, "\"%s\": [%lu, %lu, %lu], ", name, numbers[0], numbers[1], numbers[2]);
}

/* getrusage() would give the most that the test had which started this program, where that is more. */
static long peak_kib(void)
{
	FILE *status = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	while (kib < 0 && fgets(line, sizeof(line), status))
		sscanf(line, "VmHWM: %ld", &kib);
	fclose(status);
	return kib;
}

int main(void)
{
	uint64_t accesses[NR_CONTEXTS] = { 0 }, lost = 0;
	struct line_table *all[MAX_TABLES];
	char line[256];

	while (fgets(line, sizeof(line), stdin))
		obey(line);
	for (unsigned int t = 0; t < nr_tables; t++) {
		lines_flush(&tables[t]);
		all[t] = &tables[t];
		lost += tables[t].counts.lost;
		for (int context = 0; context < NR_CONTEXTS; context++)
			accesses[context] += tables[t].accesses[context];
	}
	if (has_windows)
		end_window();
	for (unsigned int t = 0; has_windows && t < nr_tables; t++)
		all[t] = &kept[t];
	if (write_shared(all))
		return 1;
	fprintf(stderr, "{");
	write_numbers("accesses", accesses);
	write_numbers("stack_accesses", stack_accesses);
	fprintf(stderr, "\"lost\": %lu, \"peak_kib\": %ld}\n", lost, peak_kib());
	return 0;
}
