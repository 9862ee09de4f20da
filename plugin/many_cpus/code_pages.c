// SPDX-License-Identifier: GPL-2.0-or-later
#define _GNU_SOURCE
#include "many_cpus/code_pages.h"

#include <dlfcn.h>

#include "arch/guest.h"

#define PAGE_BYTES 4096ull /* of QEMU, whatever the kernel's are */
#define AREA_BYTES (2ull << 20)
#define MAX_PAGES (1 << 16) /* of which the kernel's image has less than a tenth */
#define DIRTY_MEMORY_CODE 1 /* include/exec/ramlist.h */

/* QEMU exports its functions if it is built with modules, as distributions do. NULL: not found, or another QEMU. */
static struct {
	void *(*block_of)(void *host, bool round, uint64_t *offset); /* qemu_ram_block_from_host() */
	uint64_t (*address_of)(void *host);			      /* qemu_ram_addr_from_host() */
	bool (*notice_writes)(uint64_t start, uint64_t length, unsigned int client);
} qemu;

static bool was_translated[MAX_PAGES]; /* by where in memory a page is */

/* notice_writes() has this name in QEMU 10: another name may come with other arguments. */
void code_pages_init(void)
{
	qemu.block_of = (void *(*)(void *, bool, uint64_t *))dlsym(RTLD_DEFAULT, "qemu_ram_block_from_host");
	qemu.address_of = (uint64_t(*)(void *))dlsym(RTLD_DEFAULT, "qemu_ram_addr_from_host");
	qemu.notice_writes = (bool (*)(uint64_t, uint64_t, unsigned int))dlsym(RTLD_DEFAULT,
									       "cpu_physical_memory_test_and_clear_dirty");
	if (!qemu.block_of || !qemu.address_of)
		qemu.notice_writes = NULL;
}

/*
 * The kernel's image is mapped in one piece, so that its virtual and physical addresses agree in their low bits. A module's
 * pages lie anywhere, and so do a program's: others around them are no code.
 */
static bool is_of_image(uint64_t address, uint64_t offset)
{
	return is_kernel_address(address) && (address - offset) % AREA_BYTES == 0 && offset / PAGE_BYTES < MAX_PAGES;
}

/*
 * Whenever code of a page is translated for the first time, as most of the image is written at boot, where the kernel
 * changes its own code. A page without translated code is no longer noticed after the first write.
 */
void code_pages_translate(const struct qemu_plugin_tb *tb)
{
	uint64_t offset, last;
	char *host, *start;
	void *block;

	if (!qemu.notice_writes)
		return;
	host = qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0));
	block = host ? qemu.block_of(host, false, &offset) : NULL;
	if (!block || !is_of_image(qemu_plugin_tb_vaddr(tb), offset) || was_translated[offset / PAGE_BYTES])
		return;
	was_translated[offset / PAGE_BYTES] = true;
	start = host - offset % AREA_BYTES;
	if (qemu.block_of(start + AREA_BYTES - 1, false, &last) == block)
		qemu.notice_writes(qemu.address_of(start), AREA_BYTES, DIRTY_MEMORY_CODE);
}
