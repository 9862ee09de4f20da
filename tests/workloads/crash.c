// SPDX-License-Identifier: GPL-2.0-or-later
/* Before its tasks start it does to the kernel what the machine's domain name says. */
#include <assert.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <unistd.h>

char *testcase_description = "crash the kernel";

static uint64_t address_of(const char *symbol)
{
	FILE *symbols = fopen("/proc/kallsyms", "r");
	char line[512], name[256];
	uint64_t address;

	while (fgets(line, sizeof(line), symbols))
		if (sscanf(line, "%lx %*c %255s", &address, name) == 2 && !strcmp(name, symbol))
			return address;
	assert(!"no such symbol");
}

static uint64_t physical_address(const void *memory)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry;

	assert(pread(fd, &entry, sizeof(entry), (uintptr_t)memory / 4096 * sizeof(entry)) == sizeof(entry));
	close(fd);
	return (entry & ((1ull << 55) - 1)) * 4096;
}

/*
 * Clear the code of getppid() behind the kernel's back, and call it: QEMU's configuration device copies what it is
 * asked for to any physical address, and zeros for an item that is not there (QEMU's docs/specs/fw_cfg.rst).
 */
static void oops(void)
{
	struct {
		uint32_t control, length;
		uint64_t address;
	} *request = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	uint64_t at = physical_address(request);

	request->control = __builtin_bswap32(0xffff << 16 | 8 | 2); /* select item 0xffff, read */
	request->length = __builtin_bswap32(16);
	request->address = __builtin_bswap64(address_of("__x64_sys_getppid") - 0xffffffff80000000);
	assert(!iopl(3));
	outl(__builtin_bswap32(at >> 32), 0x514);
	outl(__builtin_bswap32(at), 0x518);
	getppid();
}

void testcase_prepare(unsigned long nr_tasks)
{
	char way[65];

	assert(!getdomainname(way, sizeof(way)));
	if (!strcmp(way, "oops"))
		oops();
	if (!strcmp(way, "memory"))
		for (;;)
			memset(malloc(1 << 20), 1, 1 << 20);
	if (!strcmp(way, "hang"))
		for (;;)
			pause();
}

void testcase(unsigned long long *iterations, unsigned long nr)
{
	for (;;) {
		getppid();
		(*iterations)++;
	}
}
