// SPDX-License-Identifier: GPL-2.0-or-later
#include "translation/symbols.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "arch/guest.h"
#include "cpu/cpu.h"
#include "lib/names.h"
#include "lib/xalloc.h"
#include "memory/allocators.h"
#include "protocol/folder.h"
#include "translation/preemptions.h"

#define MAX_PLACES 2048
#define MAX_FTRACE 4
#define MAX_BYTES (256ull << 20) /* a distribution's kernel has less than 20 MiB of symbols */
#define FUNCTIONS_AT_ONCE (1 << 16)

/* A place in the kernel's code that means something to the recorder. Places are sorted by address and role. */
struct place {
	uint64_t address;
	enum role { ROLE_ENTRY, ROLE_LOCK, ROLE_TRACE } role;
	union {
		enum entry_kind entry;
		const struct lock_function *lock;
		enum trace_function trace;
	};
};

static struct {
	FILE *file; /* NULL: none came */
	uint64_t bytes; /* that came */
	bool loaded;
	uint64_t *functions; /* the addresses of all */
	size_t nr_functions, room;
	struct place places[MAX_PLACES];
	size_t nr_places;
	uint64_t ftrace[MAX_FTRACE];
	unsigned int nr_ftrace;
	uint64_t *per_cpu_offsets;
	struct symbols_lost lost;
} symbols;

/* A snapshot may be taken any time, and the file is complete then: nothing is buffered. */
static bool keep(const void *part, size_t length, FILE *file)
{
	if (!part || !file || symbols.lost.parts || symbols.bytes + length > MAX_BYTES)
		return false;
	symbols.bytes += length;
	return write(fileno(file), part, length) == (ssize_t)length;
}

/* What lies in a gap would count for the function before it: with a part missing, there are no symbols at all. */
void symbols_receive(uint64_t address, size_t length, FILE *file)
{
	symbols.file = file;
	if (keep(guest_read_memory(address, length), length, file))
		return;
	symbols.lost.parts++;
	if (file && ftruncate(fileno(file), 0))
		perror("recorder: kallsyms");
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

static void add_place(struct place place)
{
	if (symbols.nr_places < MAX_PLACES)
		symbols.places[symbols.nr_places++] = place;
	else if (place.role == ROLE_LOCK)
		symbols.lost.lock_functions++;
	else
		symbols.lost.entries++;
}

static void add_entry(uint64_t address, enum entry_kind kind)
{
	add_place((struct place){ address, ROLE_ENTRY, .entry = kind });
}

static void add_ftrace(uint64_t address)
{
	if (symbols.nr_ftrace < MAX_FTRACE)
		symbols.ftrace[symbols.nr_ftrace++] = address;
	else
		symbols.lost.entries++;
}

/* The instruction that every call of a function executes. */
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

static void add_vectors(uint64_t address, const char *name)
{
	unsigned int nr = guest.arch->nr_vectors ? guest.arch->nr_vectors(name) : 0;

	for (unsigned int i = 0; i < nr; i++)
		if (guest.arch->vector_kind(i) != ENTRY_NONE)
			add_entry(address + i * guest.arch->vector_bytes, guest.arch->vector_kind(i));
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
		add_place((struct place){ behind_entry(address), ROLE_LOCK, .lock = lock });
	if (trace != TRACE_NOTHING)
		add_place((struct place){ behind_entry(address), ROLE_TRACE, .trace = trace });
	if (kind == ENTRY_NONE && strchr("tT", type))
		kind = allocator_kind(name);
	if (kind == ENTRY_FTRACE)
		add_ftrace(address);
	else if (kind != ENTRY_NONE)
		add_entry(behind_entry(address), kind);
	preemptions_note(name, address);
	add_vectors(address, name);
}

static int compare_addresses(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	int order = compare_addresses(&x->address, &y->address);

	return order ? order : (int)x->role - (int)y->role;
}

static const struct place *find_place(uint64_t pc, enum role role)
{
	const struct place place = { .address = pc, .role = role };

	return bsearch(&place, symbols.places, symbols.nr_places, sizeof(place), compare_places);
}

/* A line of /proc/kallsyms: an address, a type, a name, perhaps a module. sscanf() takes longer than all the rest. */
static void add_line(char *line)
{
	char *after, *name;
	uint64_t address = strtoull(line, &after, 16);

	if (after == line || after[0] != ' ' || !after[1] || after[2] != ' ')
		return;
	name = after + 3;
	name[strcspn(name, "\t\n")] = '\0';
	/* The padding before a function (CONFIG_PREFIX_SYMBOLS): half of all functions' symbols, and seldom code. */
	if (!starts_with(name, "__pfx_"))
		add_symbol(address, after[1], name);
}

void symbols_load(void)
{
	char line[1024];

	if (symbols.loaded)
		return;
	symbols.loaded = true;
	if (!symbols.file) /* the machine handed them over before its snapshot was taken */
		symbols.file = folder_open("kallsyms", "r");
	if (!symbols.file)
		return;
	rewind(symbols.file);
	while (fgets(line, sizeof(line), symbols.file))
		add_line(line);
	preemptions_add(add_entry);
	qsort(symbols.places, symbols.nr_places, sizeof(*symbols.places), compare_places);
	qsort(symbols.functions, symbols.nr_functions, sizeof(*symbols.functions), compare_addresses);
}

enum entry_kind symbols_entry(uint64_t pc)
{
	const struct place *place = find_place(pc, ROLE_ENTRY);

	return place ? place->entry : ENTRY_NONE;
}

const struct lock_function *symbols_lock_function(uint64_t pc)
{
	const struct place *place = find_place(pc, ROLE_LOCK);

	return place ? place->lock : NULL;
}

enum trace_function symbols_trace_function(uint64_t pc)
{
	const struct place *place = find_place(pc, ROLE_TRACE);

	return place ? place->trace : TRACE_NOTHING;
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

	for (size_t i = 0; i < symbols.nr_places; i++) {
		const struct place *place = &symbols.places[i];

		nr += place->role == ROLE_ENTRY && (place->entry == ENTRY_INTERRUPT || place->entry == ENTRY_OLD_INTERRUPT);
	}
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
