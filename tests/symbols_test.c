// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Hands the recorder parts of a kernel's symbols, as a guest does. Its arguments: the file that they go to, how many bytes
 * the file can have, how many parts come, of how many bytes each. Standard output: how many are lost.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../plugin/arch/guest.h"
#include "../plugin/counts/locks.h"
#include "../plugin/cpu/cpu.h"
#include "../plugin/memory/allocators.h"
#include "../plugin/protocol/folder.h"
#include "../plugin/trace/trace_events.h"
#include "../plugin/translation/preemptions.h"
#include "../plugin/translation/symbols.h"

struct guest guest;
struct cpus cpus;
static char *part;

const void *guest_read_memory(uint64_t address, size_t length)
{
	(void)length;
	return part + address;
}

#define NOT_CALLED(result, name, ...) \
	result name(__VA_ARGS__)      \
	{                             \
		abort();              \
	}

#pragma GCC diagnostic ignored "-Wunused-parameter"
NOT_CALLED(FILE *, folder_open, const char *name, const char *mode)
NOT_CALLED(enum entry_kind, allocator_kind, const char *symbol)
NOT_CALLED(enum trace_function, trace_function, const char *symbol)
NOT_CALLED(const struct lock_function *, lock_function, const char *symbol)
NOT_CALLED(void, preemptions_note, const char *symbol, uint64_t address)
NOT_CALLED(void, preemptions_add, void (*add)(uint64_t address, enum entry_kind kind))

int main(int argc, char **argv)
{
	struct rlimit limit;
	size_t length;
	FILE *file;

	if (argc != 5)
		return 1;
	limit.rlim_cur = limit.rlim_max = strtoul(argv[2], NULL, 10);
	length = strtoul(argv[4], NULL, 10);
	file = fopen(argv[1], "a+");
	part = malloc(length);
	if (!file || !part || setrlimit(RLIMIT_FSIZE, &limit) || signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
		return 1;
	memset(part, '\n', length);
	for (unsigned long nr = strtoul(argv[3], NULL, 10); nr; nr--)
		symbols_receive(0, length, file);
	free(part);
	printf("%lu\n", symbols_lost().parts);
	return fclose(file);
}
