// SPDX-License-Identifier: GPL-2.0-or-later
#include "allocations.h"

#include "hash.h"

#define TABLE_BYTES (256ull << 20)

struct object {
	uint64_t address;
	uint64_t asked;
	chain_id chain;
};

static struct hash_table objects;

void allocations_add(uint64_t address, const struct allocation *allocation)
{
	struct object *object;

	if (!objects.entry_bytes)
		objects = hash_table(sizeof(struct object), 1, TABLE_BYTES);
	object = hash_add(&objects, &address, 1);
	if (object)
		*object = (struct object){ address, allocation->asked, allocation->chain };
}

uint64_t allocations_lost(void)
{
	return objects.lost;
}

int allocations_write(FILE *out)
{
	const struct object *object;

	fprintf(out, "address,chain,asked\n");
	hash_for_each(object, &objects)
		fprintf(out, "%#lx,%u,%#lx\n", object->address, object->chain, object->asked);
	return ferror(out) ? -1 : 0;
}
