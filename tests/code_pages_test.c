// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Translates blocks of code in a stand-in for QEMU with 7 MiB of memory, at the addresses that are read from standard
 * input: of the kernel, and in memory (-: in a device). Standard output: of which memory writes are to be noticed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../plugin/arch/guest.h"
#include "../plugin/many_cpus/code_pages.h"

#define BYTES (7u << 20)
#define RAM_ADDRESS 0x1000 /* of which QEMU's address space for all memory has other parts, too */

struct guest guest = { .arch = &(struct arch){ .kernel_start = 0xffff000000000000 } };

static char memory[BYTES + 1];
static uint64_t address, offset;

uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb)
{
	(void)tb;
	return address;
}

struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t idx)
{
	(void)tb;
	(void)idx;
	return NULL;
}

void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *insn)
{
	(void)insn;
	return offset < BYTES ? memory + offset : NULL;
}

#ifdef HAS_QEMU
EXPORT void *qemu_ram_block_from_host(void *host, bool round, uint64_t *in_block);
EXPORT uint64_t qemu_ram_addr_from_host(void *host);
EXPORT bool cpu_physical_memory_test_and_clear_dirty(uint64_t start, uint64_t length, unsigned int client);

void *qemu_ram_block_from_host(void *host, bool round, uint64_t *in_block)
{
	*in_block = (char *)host - memory;
	return !round && *in_block < BYTES ? memory : NULL;
}

uint64_t qemu_ram_addr_from_host(void *host)
{
	return (char *)host - memory + RAM_ADDRESS;
}

bool cpu_physical_memory_test_and_clear_dirty(uint64_t start, uint64_t length, unsigned int client)
{
	printf("%lx %lx %u\n", start, length, client);
	return true;
}
#endif

int main(void)
{
	char place[32];

	code_pages_init();
	while (scanf("%lx %31s", &address, place) == 2) {
		offset = strcmp(place, "-") ? strtoul(place, NULL, 16) : BYTES;
		code_pages_translate(NULL);
	}
	return 0;
}
