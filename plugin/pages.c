// SPDX-License-Identifier: GPL-2.0-or-later
#include "pages.h"

#include <stdbool.h>
#include <stdlib.h>

#include "hash.h"

#define FIRST_CAPACITY 4096
#define PAGE_MASK (~(uint64_t)4095)

struct page {
	uint64_t physical; /* 0: unused */
	uint64_t virtual;
	bool moved;
};

/* An open hash table, at most half full. */
static struct page *pages;
static uint64_t capacity, used;

static struct page *find(uint64_t physical)
{
	uint64_t at = hash(physical, 0) & (capacity - 1);

	while (pages[at].physical && pages[at].physical != physical)
		at = (at + 1) & (capacity - 1);
	return &pages[at];
}

static void grow(void)
{
	struct page *old = pages;
	uint64_t old_capacity = capacity;

	capacity = capacity ? capacity * 2 : FIRST_CAPACITY;
	pages = calloc(capacity, sizeof(*pages));
	if (!pages)
		abort();
	for (uint64_t i = 0; i < old_capacity; i++)
		if (old[i].physical)
			*find(old[i].physical) = old[i];
	free(old);
}

void pages_note(uint64_t physical, uint64_t virtual)
{
	struct page *page;

	if (used * 2 >= capacity)
		grow();
	page = find(physical & PAGE_MASK);
	if (!page->physical) {
		*page = (struct page){ physical & PAGE_MASK, virtual & PAGE_MASK, false };
		used++;
	}
	page->moved |= page->virtual != (virtual & PAGE_MASK);
}

int pages_write(FILE *out)
{
	fprintf(out, "physical,virtual,moved\n");
	for (uint64_t i = 0; i < capacity; i++)
		if (pages[i].physical)
			fprintf(out, "%#lx,%#lx,%d\n", pages[i].physical, pages[i].virtual, pages[i].moved);
	return ferror(out) ? -1 : 0;
}
