// SPDX-License-Identifier: GPL-2.0-or-later
#include "memory/allocations.h"

#include "lib/hash.h"

#define TABLE_BYTES (256ull << 20)

struct object {
	uint64_t address;
	uint64_t request;
	chain_id chain;
};

static const struct hash_type object_type = { sizeof(struct object), 1 };
static struct hash_table objects = { .max_bytes = TABLE_BYTES };

void allocations_add(uint64_t address, const struct allocation *allocation)
{
	struct object *object = hash_add(&objects, &object_type, &address, 1);

	if (object)
		*object = (struct object){ address, allocation->request, allocation->chain };
}

uint64_t allocations_lost(void)
{
	return objects.lost;
}

int allocations_write(FILE *out)
{
	const struct object *object;

	fprintf(out, "address,chain,asked\n");
	hash_for_each(object, &objects, &object_type)
		fprintf(out, "%#lx,%u,%#lx\n", object->address, object->chain, object->request);
	return ferror(out) ? -1 : 0;
}
