// SPDX-License-Identifier: GPL-2.0-or-later
#include "symbols.h"

#include <stdlib.h>
#include <string.h>

#include "allocators.h"
#include "cpu.h"
#include "guest.h"
#include "names.h"
#include "preemptions.h"
#include "results.h"
#include "xalloc.h"

#define MAX_ENTRIES 1024
#define MAX_LOCK_FUNCTIONS 64
#define MAX_TRACE_FUNCTIONS 64
#define MAX_FTRACE 4
#define FUNCTIONS_AT_ONCE (1 << 16)

/* Of all of these the address comes first, and they are sorted by it. */
struct entry {
	uint64_t address;
	enum entry_kind kind;
};

struct lock_entry {
	uint64_t address;
	const struct lock_function *function;
};

struct trace_entry {
	uint64_t address;
	enum trace_function function;
};

static struct {
	FILE *file; /* NULL: none came */
	bool loaded;
	uint64_t *functions; /* the addresses of all */
	size_t nr_functions, room;
	struct entry entries[MAX_ENTRIES];
	unsigned int nr_entries;
	struct lock_entry lock_entries[MAX_LOCK_FUNCTIONS];
	unsigned int nr_lock_entries;
	struct trace_entry trace_entries[MAX_TRACE_FUNCTIONS];
	unsigned int nr_trace_entries;
	uint64_t ftrace[MAX_FTRACE];
	unsigned int nr_ftrace;
	uint64_t *per_cpu_offsets;
	struct symbols_lost lost;
} symbols;

void symbols_receive(uint64_t address, size_t length, FILE *file)
{
	const void *part = guest_read_memory(address, length);

	symbols.file = file;
	/* All that came is there when a machine is kept: another may go on from here. */
	if (!part || !file || fwrite(part, 1, length, file) != length || fflush(file))
		symbols.lost.parts++;
}

static void add_function(uint64_t address)
{
	if (symbols.nr_functions == symbols.room) {
		size_t room = symbols.room + FUNCTIONS_AT_ONCE;
		uint64_t *more = realloc(symbols.functions, room * sizeof(*more));

		if (!more) {
			symbols.lost.functions++;
			return;
		}
		symbols.functions = more;
		symbols.room = room;
	}
	symbols.functions[symbols.nr_functions++] = address;
}

static void add_entry(uint64_t address, enum entry_kind kind)
{
	if (symbols.nr_entries < MAX_ENTRIES)
		symbols.entries[symbols.nr_entries++] = (struct entry){ address, kind };
	else
		symbols.lost.entries++;
}

static void add_lock_function(uint64_t address, const struct lock_function *function)
{
	if (symbols.nr_lock_entries < MAX_LOCK_FUNCTIONS)
		symbols.lock_entries[symbols.nr_lock_entries++] = (struct lock_entry){ address, function };
	else
		symbols.lost.lock_functions++;
}

static void add_trace_function(uint64_t address, enum trace_function function)
{
	if (symbols.nr_trace_entries < MAX_TRACE_FUNCTIONS)
		symbols.trace_entries[symbols.nr_trace_entries++] = (struct trace_entry){ address, function };
	else
		symbols.lost.entries++;
}

static void add_ftrace(uint64_t address)
{
	if (symbols.nr_ftrace < MAX_FTRACE)
		symbols.ftrace[symbols.nr_ftrace++] = address;
	else
		symbols.lost.entries++;
}

/* Where every call of a function comes by. */
static uint64_t behind_entry(uint64_t function)
{
	const uint8_t *bytes = guest_read_memory(function, ENTRY_BYTES);

	return function + (bytes ? guest.arch->entry_offset(bytes) : 0);
}

static void read_per_cpu_offsets(uint64_t address)
{
	size_t size = cpus.nr * sizeof(*symbols.per_cpu_offsets);
	const void *offsets = guest_read_memory(address, size);

	if (!offsets)
		return;
	free(symbols.per_cpu_offsets);
	symbols.per_cpu_offsets = xcalloc(1, size);
	memcpy(symbols.per_cpu_offsets, offsets, size);
}

static void add_symbol(uint64_t address, char type, const char *name)
{
	const struct lock_function *lock = lock_function(name);
	enum trace_function trace = strchr("tT", type) ? trace_function(name) : TRACE_NOTHING;
	enum entry_kind kind = guest.arch->entry_kind(name, type);

	if (strchr("tTwW", type))
		add_function(address);
	if (!strcmp(name, "__per_cpu_offset"))
		read_per_cpu_offsets(address);
	if (lock)
		add_lock_function(behind_entry(address), lock);
	if (trace != TRACE_NOTHING)
		add_trace_function(behind_entry(address), trace);
	if (kind == ENTRY_NONE && strchr("tT", type))
		kind = allocator_kind(name);
	if (kind == ENTRY_FTRACE)
		add_ftrace(address);
	else if (kind != ENTRY_NONE)
		add_entry(behind_entry(address), kind);
	preemptions_note(name, address);
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

#define SORT(array, nr) qsort(array, nr, sizeof(*(array)), compare_addresses)
#define FIND(address, array, nr) bsearch(&(address), array, nr, sizeof(*(array)), compare_addresses)

/* A line of /proc/kallsyms: an address, a type, a name, perhaps a module. sscanf() takes longer than all the rest. */
static void add_line(char *line)
{
	char *after, *name;
	uint64_t address = strtoull(line, &after, 16);

	if (after == line || after[0] != ' ' || !after[1] || after[2] != ' ')
		return;
	name = after + 3;
	name[strcspn(name, "\t\n")] = '\0';
	/* The room before a function (CONFIG_PREFIX_SYMBOLS): half of all functions' symbols, and seldom code. */
	if (!starts_with(name, "__pfx_"))
		add_symbol(address, after[1], name);
}

void symbols_load(void)
{
	char line[1024];

	if (symbols.loaded)
		return;
	symbols.loaded = true;
	if (!symbols.file) /* a machine that was kept handed them over before that: they are there */
		symbols.file = results_open("kallsyms", "r");
	if (!symbols.file)
		return;
	rewind(symbols.file);
	while (fgets(line, sizeof(line), symbols.file))
		add_line(line);
	preemptions_add(add_entry);
	SORT(symbols.entries, symbols.nr_entries);
	SORT(symbols.lock_entries, symbols.nr_lock_entries);
	SORT(symbols.trace_entries, symbols.nr_trace_entries);
	SORT(symbols.functions, symbols.nr_functions);
}

enum entry_kind symbols_entry(uint64_t pc)
{
	const struct entry *entry = FIND(pc, symbols.entries, symbols.nr_entries);

	return entry ? entry->kind : ENTRY_NONE;
}

const struct lock_function *symbols_lock_function(uint64_t pc)
{
	const struct lock_entry *entry = FIND(pc, symbols.lock_entries, symbols.nr_lock_entries);

	return entry ? entry->function : NULL;
}

enum trace_function symbols_trace_function(uint64_t pc)
{
	const struct trace_entry *entry = FIND(pc, symbols.trace_entries, symbols.nr_trace_entries);

	return entry ? entry->function : TRACE_NOTHING;
}

uint64_t symbols_function(uint64_t pc)
{
	size_t from = 0, to = symbols.nr_functions;

	while (to - from > 1) {
		size_t middle = (from + to) / 2;

		if (symbols.functions[middle] <= pc)
			from = middle;
		else
			to = middle;
	}
	return symbols.nr_functions && symbols.functions[from] <= pc ? symbols.functions[from] : pc;
}

bool symbols_is_ftrace_call(const uint8_t *bytes, size_t size, uint64_t pc)
{
	uint64_t call, next;

	for (unsigned int i = 0; i < symbols.nr_ftrace; i++)
		if (guest.arch->find_call(bytes, size, pc, symbols.ftrace[i], &call, &next))
			return true;
	return false;
}

unsigned int symbols_nr_interrupts(void)
{
	unsigned int nr = 0;

	for (unsigned int i = 0; i < symbols.nr_entries; i++)
		nr += symbols.entries[i].kind == ENTRY_INTERRUPT || symbols.entries[i].kind == ENTRY_OLD_INTERRUPT;
	return nr;
}

const uint64_t *symbols_per_cpu_offsets(void)
{
	return symbols.per_cpu_offsets;
}

struct symbols_lost symbols_lost(void)
{
	return symbols.lost;
}
