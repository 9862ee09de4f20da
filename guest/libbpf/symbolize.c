// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "symbolize.h"

#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../bpf/stacks_maps.h"

/* An address of a call, and the symbol at or before it. */
struct lookup {
	uint64_t address;
	uint64_t symbol;
	char *name;
};

static struct lookup *lookups;
static size_t nr_lookups;

/* An array with room for one element more than the `number` that it has, all of them added by this. */
static void *with_room(void *array, size_t number, size_t size)
{
	if (number & (number - 1)) /* it was doubled when it had a power of two */
		return array;
	array = realloc(array, (number ? 2 * number : 1) * size);
	if (!array)
		abort();
	return array;
}

void symbolize_add_kernel(const uint64_t *addresses, int number)
{
	for (int i = 0; i < number; i++) {
		lookups = with_room(lookups, nr_lookups, sizeof(*lookups));
		/* A call may be its function's last instruction: then it returns into the next one. */
		lookups[nr_lookups++] = (struct lookup){ .address = addresses[i] - 1 };
	}
}

static int compare(const void *one, const void *other)
{
	const struct lookup *a = one, *b = other;

	return (a->address > b->address) - (a->address < b->address);
}

/* The first address at or after a symbol; those that follow it take its name too if no later symbol has one. */
static size_t first_at_or_after(uint64_t symbol)
{
	size_t low = 0, high = nr_lookups;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (lookups[middle].address < symbol)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void consider(uint64_t symbol, const char *name)
{
	size_t first = first_at_or_after(symbol);

	if (first == nr_lookups || lookups[first].symbol >= symbol)
		return;
	free(lookups[first].name);
	lookups[first].symbol = symbol;
	lookups[first].name = strdup(name);
}

int symbolize_resolve_kernel(void)
{
	FILE *symbols = fopen("/proc/kallsyms", "re");
	char line[512], name[256], kind;
	unsigned long long symbol;

	if (!symbols)
		return -1;
	qsort(lookups, nr_lookups, sizeof(*lookups), compare);
	while (fgets(line, sizeof(line), symbols))
		if (sscanf(line, "%llx %c %255s", &symbol, &kind, name) == 3 && strchr("tTwW", kind))
			consider(symbol, name);
	fclose(symbols);
	for (size_t i = 1; i < nr_lookups; i++)
		if (!lookups[i].name || lookups[i].symbol < lookups[i - 1].symbol) {
			free(lookups[i].name);
			lookups[i].symbol = lookups[i - 1].symbol;
			lookups[i].name = lookups[i - 1].name ? strdup(lookups[i - 1].name) : NULL;
		}
	return 0;
}

static const char *kernel_name(uint64_t address)
{
	const struct lookup key = { .address = address - 1 };
	const struct lookup *found = bsearch(&key, lookups, nr_lookups, sizeof(*lookups), compare);

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

char *symbolize_kernel_path(const uint64_t *addresses, int number)
{
	const char *names[MOST_FRAMES];

	for (int i = 0; i < number; i++)
		names[i] = kernel_name(addresses[i]);
	return join(names, number);
}

/* A program or library, and its table of symbols. */
struct object {
	dev_t device;
	ino_t inode;
	Elf *elf;
	Elf_Scn *symbols; /* NULL: it has none */
	GElf_Shdr header;
};

static struct object **objects;
static size_t nr_objects;

/* The executable parts of a process's memory that come from files. All tasks of a workload have the same. */
static struct part {
	uint64_t start, end, offset;
	struct object *object;
} *parts;
static size_t nr_parts;
static uint32_t process;

/* Names that were looked for in it lately: most stacks go through the same few functions. */
static struct {
	uint64_t address;
	const char *name;
} cached[1024];

/* What is linked statically is in the full table; of a stripped library the dynamic one is left. */
static void find_symbols(struct object *object)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(object->elf, section))) {
		if (!gelf_getshdr(section, &header))
			continue;
		if (header.sh_type == SHT_SYMTAB || (header.sh_type == SHT_DYNSYM && !object->symbols)) {
			object->symbols = section;
			object->header = header;
		}
		if (header.sh_type == SHT_SYMTAB)
			return;
	}
}

/* By the link that the kernel keeps to a part's file, whatever has become of its name. */
static struct object *open_object(const char *link)
{
	struct stat file;
	struct object *object;
	int fd = open(link, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	if (fstat(fd, &file)) {
		close(fd);
		return NULL;
	}
	for (size_t i = 0; i < nr_objects; i++) {
		if (objects[i]->device == file.st_dev && objects[i]->inode == file.st_ino) {
			close(fd);
			return objects[i];
		}
	}
	elf_version(EV_CURRENT);
	object = calloc(1, sizeof(*object));
	if (!object)
		abort();
	*object = (struct object){ .device = file.st_dev, .inode = file.st_ino };
	object->elf = elf_begin(fd, ELF_C_READ, NULL);
	find_symbols(object);
	objects = with_room(objects, nr_objects, sizeof(*objects));
	return objects[nr_objects++] = object;
}

static void open_process(uint32_t tgid)
{
	char path[64], line[512], access[5];
	unsigned long long start, end, offset;
	unsigned long inode;
	FILE *maps;

	if (process == tgid)
		return;
	process = tgid;
	nr_parts = 0;
	memset(cached, 0, sizeof(cached));
	snprintf(path, sizeof(path), "/proc/%u/maps", tgid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx %4s %llx %*s %lu", &start, &end, access, &offset, &inode) != 5 ||
		    access[2] != 'x' || !inode)
			continue;
		snprintf(path, sizeof(path), "/proc/%u/map_files/%llx-%llx", tgid, start, end);
		parts = with_room(parts, nr_parts, sizeof(*parts));
		parts[nr_parts++] = (struct part){ start, end, offset, open_object(path) };
	}
	if (maps)
		fclose(maps);
}

/* Where an address of memory is in the object, as its symbols count. Returns 0, or -1 for nowhere. */
static int in_object(const struct part *part, uint64_t address, uint64_t *found)
{
	uint64_t offset = address - part->start + part->offset;
	GElf_Phdr header;
	size_t number;

	if (!part->object || elf_getphdrnum(part->object->elf, &number))
		return -1;
	for (size_t i = 0; i < number; i++) {
		if (gelf_getphdr(part->object->elf, i, &header) && header.p_type == PT_LOAD &&
		    offset - header.p_offset < header.p_filesz) {
			*found = offset - header.p_offset + header.p_vaddr;
			return 0;
		}
	}
	return -1;
}

static const char *symbol_at(const struct object *object, uint64_t address)
{
	Elf_Data *data = object->symbols ? elf_getdata(object->symbols, NULL) : NULL;
	GElf_Sym symbol;

	for (int i = 0; data && gelf_getsym(data, i, &symbol); i++)
		if (GELF_ST_TYPE(symbol.st_info) == STT_FUNC && address - symbol.st_value < symbol.st_size)
			return elf_strptr(object->elf, object->header.sh_link, symbol.st_name);
	return NULL;
}

static const char *lookup_user(uint64_t address)
{
	const char *name = NULL;
	uint64_t found;

	for (size_t i = 0; i < nr_parts && !name; i++)
		if (address - parts[i].start < parts[i].end - parts[i].start && !in_object(&parts[i], address, &found))
			name = symbol_at(parts[i].object, found);
	return name ? name : "[unknown]";
}

static const char *user_name(uint64_t address)
{
	size_t place = address % (sizeof(cached) / sizeof(*cached));

	if (!cached[place].name || cached[place].address != address) {
		cached[place].address = address;
		cached[place].name = lookup_user(address);
	}
	return cached[place].name;
}

char *symbolize_user_path(uint32_t tgid, const uint64_t *addresses, int number)
{
	const char *names[MOST_FRAMES];

	if (number)
		open_process(tgid);
	for (int i = 0; i < number; i++)
		names[i] = user_name(addresses[i] - !!i);
	return join(names, number);
}
