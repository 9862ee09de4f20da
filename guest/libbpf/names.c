// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "names.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../bpf/stacks_maps.h"

/* An address of a call, and the symbol at or before it. */
struct wanted {
	uint64_t address;
	uint64_t symbol;
	char *name;
};

static struct wanted *wanted;
static size_t nr_wanted, room;

void names_want_kernel(const uint64_t *addresses, int number)
{
	for (int i = 0; i < number; i++) {
		if (nr_wanted == room) {
			room = room ? 2 * room : 256;
			wanted = realloc(wanted, room * sizeof(*wanted));
			if (!wanted)
				abort();
		}
		/* A call may be its function's last instruction: then it returns into the next one. */
		wanted[nr_wanted++] = (struct wanted){ .address = addresses[i] - 1 };
	}
}

static int compare(const void *one, const void *other)
{
	const struct wanted *a = one, *b = other;

	return (a->address > b->address) - (a->address < b->address);
}

/* The first wanted address at or after a symbol; those that follow it take its name too if no later symbol has one. */
static size_t first_at_or_after(uint64_t symbol)
{
	size_t low = 0, high = nr_wanted;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (wanted[middle].address < symbol)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void offer(uint64_t symbol, const char *name)
{
	size_t first = first_at_or_after(symbol);

	if (first == nr_wanted || wanted[first].symbol >= symbol)
		return;
	free(wanted[first].name);
	wanted[first].symbol = symbol;
	wanted[first].name = strdup(name);
}

int names_find_kernel(void)
{
	FILE *symbols = fopen("/proc/kallsyms", "re");
	char line[512], name[256], kind;
	unsigned long long symbol;

	if (!symbols)
		return -1;
	qsort(wanted, nr_wanted, sizeof(*wanted), compare);
	while (fgets(line, sizeof(line), symbols))
		if (sscanf(line, "%llx %c %255s", &symbol, &kind, name) == 3 && strchr("tTwW", kind))
			offer(symbol, name);
	fclose(symbols);
	for (size_t i = 1; i < nr_wanted; i++)
		if (!wanted[i].name || wanted[i].symbol < wanted[i - 1].symbol) {
			free(wanted[i].name);
			wanted[i].symbol = wanted[i - 1].symbol;
			wanted[i].name = wanted[i - 1].name ? strdup(wanted[i - 1].name) : NULL;
		}
	return 0;
}

static const char *kernel_name(uint64_t address)
{
	const struct wanted key = { .address = address - 1 };
	const struct wanted *found = bsearch(&key, wanted, nr_wanted, sizeof(*wanted), compare);

	return found && found->name ? found->name : "[unknown]";
}

static char *join(const char *const *names, int number)
{
	char *path = NULL;
	size_t size;
	FILE *out = open_memstream(&path, &size);

	for (int i = number; out && i--;)
		fprintf(out, "%s%s", names[i], i ? ";" : "");
	if (out)
		fclose(out);
	return path;
}

char *names_kernel_path(const uint64_t *addresses, int number)
{
	const char *names[MOST_FRAMES];

	for (int i = 0; i < number; i++)
		names[i] = kernel_name(addresses[i]);
	return join(names, number);
}

/* The symbols of one program: all tasks of a workload run the same. */
static struct {
	uint32_t tgid;
	int fd;
	Elf *elf;
	Elf_Scn *symbols;
	GElf_Shdr header;
} program = { .fd = -1 };

static void open_program(uint32_t tgid)
{
	char path[40];

	if (program.tgid == tgid)
		return;
	elf_end(program.elf);
	close(program.fd);
	program.tgid = tgid;
	program.symbols = NULL;
	snprintf(path, sizeof(path), "/proc/%u/exe", tgid);
	program.fd = open(path, O_RDONLY | O_CLOEXEC);
	elf_version(EV_CURRENT);
	program.elf = elf_begin(program.fd, ELF_C_READ, NULL);
	for (Elf_Scn *section = NULL; (section = elf_nextscn(program.elf, section));)
		if (gelf_getshdr(section, &program.header) && program.header.sh_type == SHT_SYMTAB) {
			program.symbols = section;
			return;
		}
}

static const char *user_name(uint64_t address)
{
	Elf_Data *data = program.symbols ? elf_getdata(program.symbols, NULL) : NULL;
	GElf_Sym symbol;

	for (int i = 0; data && gelf_getsym(data, i, &symbol); i++)
		if (GELF_ST_TYPE(symbol.st_info) == STT_FUNC && address - symbol.st_value < symbol.st_size)
			return elf_strptr(program.elf, program.header.sh_link, symbol.st_name);
	return "[unknown]";
}

char *names_user_path(uint32_t tgid, const uint64_t *addresses, int number)
{
	const char *names[MOST_FRAMES];

	if (number)
		open_program(tgid);
	for (int i = 0; i < number; i++)
		names[i] = user_name(addresses[i] - !!i);
	return join(names, number);
}
