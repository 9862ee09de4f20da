// SPDX-License-Identifier: GPL-2.0-or-later
#include "allocations.h"

#include <stdlib.h>

#include "hash.h"

#define FIRST_CAPACITY 4096
#define MAX_CAPACITY (1u << 22)

/* An open hash table, at most half full. */
static struct object {
	uint64_t address; /* 0: unused */
	uint64_t asked;
	chain_id chain;
} *objects;
static uint64_t capacity, used;

static struct object *find(uint64_t address)
{
	uint64_t at = hash(address, 0) & (capacity - 1);

	while (objects[at].address && objects[at].address != address)
		at = (at + 1) & (capacity - 1);
	return &objects[at];
}

static void grow(void)
{
	struct object *old = objects;
	uint64_t old_capacity = capacity, bigger = capacity ? capacity * 2 : FIRST_CAPACITY;
	struct object *more = bigger <= MAX_CAPACITY ? calloc(bigger, sizeof(*more)) : NULL;

	if (!more)
		return;
	objects = more;
	capacity = bigger;
	for (uint64_t i = 0; i < old_capacity; i++)
		if (old[i].address)
			*find(old[i].address) = old[i];
	free(old);
}

void allocations_add(uint64_t address, const struct allocation *allocation)
{
	struct object *object;

	if (used * 2 >= capacity)
		grow();
	if (!capacity)
		return;
	object = find(address);
	if (!object->address) {
		if (used * 2 >= capacity)
			return;
		used++;
	}
	*object = (struct object){ address, allocation->asked, allocation->chain };
}

int allocations_write(FILE *out)
{
	fprintf(out, "address,chain,asked\n");
	for (uint64_t i = 0; i < capacity; i++)
		if (objects[i].address)
			fprintf(out, "%#lx,%u,%#lx\n", objects[i].address, objects[i].chain, objects[i].asked);
	return ferror(out) ? -1 : 0;
}
