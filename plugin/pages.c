// SPDX-License-Identifier: GPL-2.0-or-later
#include "pages.h"

#include <stdbool.h>

#include "hash.h"

#define PAGE_MASK (~(uint64_t)4095)
#define USED 1 /* a bit beside a page's address, which may be 0 */
#define TABLE_BYTES (512ull << 20)

struct page {
	uint64_t physical; /* and USED */
	uint64_t virtual;  /* and USED, once it is known */
	bool moved;
};

static struct hash_table pages;

void pages_note(uint64_t physical, uint64_t virtual)
{
	uint64_t key = (physical & PAGE_MASK) | USED;
	struct page *page;

	if (!pages.entry_bytes)
		pages = hash_table(sizeof(struct page), 1, TABLE_BYTES);
	page = hash_add(&pages, &key, 1);
	if (!page)
		return;
	virtual = (virtual & PAGE_MASK) | USED;
	if (!page->virtual)
		page->virtual = virtual;
	page->moved |= page->virtual != virtual;
}

uint64_t pages_lost(void)
{
	return pages.lost;
}

int pages_write(FILE *out)
{
	const struct page *page;

	fprintf(out, "physical,virtual,moved\n");
	hash_for_each(page, &pages)
		fprintf(out, "%#lx,%#lx,%d\n", page->physical & PAGE_MASK, page->virtual & PAGE_MASK, page->moved);
	return ferror(out) ? -1 : 0;
}
