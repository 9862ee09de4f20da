// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/pages.h"

#include <stdbool.h>

#include "lib/hash.h"

#define PAGE_MASK (~(uint64_t)4095)
#define USED 1 /* a bit beside a page's address, which may be 0 */
#define TABLE_BYTES (512ull << 20)

struct page {
	uint64_t physical; /* and USED */
	uint64_t virtual;  /* and USED, once it is known */
	bool moved;
};

static const struct hash_type page_type = { sizeof(struct page), 1 };
static struct hash_table pages = { .max_bytes = TABLE_BYTES };

void pages_note(uint64_t physical, uint64_t virtual)
{
	uint64_t key = (physical & PAGE_MASK) | USED;
	struct page *page = hash_add(&pages, &page_type, &key, 1);

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
	hash_for_each(page, &pages, &page_type)
		fprintf(out, "%#lx,%#lx,%d\n", page->physical & PAGE_MASK, page->virtual & PAGE_MASK, page->moved);
	return ferror(out) ? -1 : 0;
}
