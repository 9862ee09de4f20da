// SPDX-License-Identifier: GPL-2.0-or-later
#include "locks.h"

#include <stdlib.h>
#include <string.h>

#include "hash.h"

#define FIRST_CAPACITY 1024
#define MAX_CAPACITY (1u << 20)

struct lock_count {
	uint64_t lock;
	const struct lock_function *by; /* NULL: unused */
	chain_id chain;
	enum context context;
	uint64_t acquisitions, instructions, longest;
};

/* include/linux/spinlock_api_smp.h, rwlock_api_smp.h, mutex.h, rwsem.h */
static const struct lock_function lock_functions[] = {
	{ "_raw_spin_lock", LOCK_TAKE, false },
	{ "_raw_spin_lock_bh", LOCK_TAKE, false },
	{ "_raw_spin_lock_irq", LOCK_TAKE, false },
	{ "_raw_spin_lock_irqsave", LOCK_TAKE, false },
	{ "_raw_spin_trylock", LOCK_TRY, false },
	{ "_raw_spin_trylock_bh", LOCK_TRY, false },
	{ "_raw_spin_unlock", LOCK_RELEASE, false },
	{ "_raw_spin_unlock_bh", LOCK_RELEASE, false },
	{ "_raw_spin_unlock_irq", LOCK_RELEASE, false },
	{ "_raw_spin_unlock_irqrestore", LOCK_RELEASE, false },
	{ "_raw_read_lock", LOCK_TAKE, false },
	{ "_raw_read_lock_bh", LOCK_TAKE, false },
	{ "_raw_read_lock_irq", LOCK_TAKE, false },
	{ "_raw_read_lock_irqsave", LOCK_TAKE, false },
	{ "_raw_read_trylock", LOCK_TRY, false },
	{ "_raw_read_unlock", LOCK_RELEASE, false },
	{ "_raw_read_unlock_bh", LOCK_RELEASE, false },
	{ "_raw_read_unlock_irq", LOCK_RELEASE, false },
	{ "_raw_read_unlock_irqrestore", LOCK_RELEASE, false },
	{ "_raw_write_lock", LOCK_TAKE, false },
	{ "_raw_write_lock_bh", LOCK_TAKE, false },
	{ "_raw_write_lock_irq", LOCK_TAKE, false },
	{ "_raw_write_lock_irqsave", LOCK_TAKE, false },
	{ "_raw_write_trylock", LOCK_TRY, false },
	{ "_raw_write_unlock", LOCK_RELEASE, false },
	{ "_raw_write_unlock_bh", LOCK_RELEASE, false },
	{ "_raw_write_unlock_irq", LOCK_RELEASE, false },
	{ "_raw_write_unlock_irqrestore", LOCK_RELEASE, false },
	{ "mutex_lock", LOCK_TAKE, true },
	{ "mutex_lock_interruptible", LOCK_INTERRUPTIBLE, true },
	{ "mutex_lock_killable", LOCK_INTERRUPTIBLE, true },
	{ "mutex_trylock", LOCK_TRY, true },
	{ "mutex_unlock", LOCK_RELEASE, true },
	{ "down_read", LOCK_TAKE, true },
	{ "down_read_interruptible", LOCK_INTERRUPTIBLE, true },
	{ "down_read_killable", LOCK_INTERRUPTIBLE, true },
	{ "down_read_trylock", LOCK_TRY, true },
	{ "up_read", LOCK_RELEASE, true },
	{ "down_write", LOCK_TAKE, true },
	{ "down_write_killable", LOCK_INTERRUPTIBLE, true },
	{ "down_write_trylock", LOCK_TRY, true },
	{ "up_write", LOCK_RELEASE, true },
};

const struct lock_function *lock_function(const char *symbol)
{
	for (size_t i = 0; i < sizeof(lock_functions) / sizeof(*lock_functions); i++)
		if (!strcmp(symbol, lock_functions[i].name))
			return &lock_functions[i];
	return NULL;
}

static struct lock_hold *last(struct lock_list *list)
{
	return list->nr ? &list->holds[list->nr - 1] : NULL;
}

static void remove_at(struct lock_list *list, unsigned int place)
{
	memmove(&list->holds[place], &list->holds[place + 1], (--list->nr - place) * sizeof(*list->holds));
}

static void append(struct lock_list *list, const struct lock_hold *hold)
{
	if (list->nr == MAX_HOLDS)
		remove_at(list, 0);
	list->holds[list->nr++] = *hold;
}

void locks_begin(struct lock_list *taking, const struct lock_hold *hold)
{
	append(taking, hold);
}

bool locks_end(struct lock_list *taking, uint64_t sp, struct lock_hold *hold)
{
	struct lock_hold *begun;

	/* What lies below is gone, however it ended. */
	while ((begun = last(taking)) && begun->sp < sp)
		taking->nr--;
	if (!begun || begun->sp != sp)
		return false;
	*hold = *begun;
	taking->nr--;
	return true;
}

bool locks_taken(const struct lock_function *by, uint64_t result)
{
	/* A bool has one byte; the others may hold anything. */
	if (by->action == LOCK_TRY)
		return (uint8_t)result;
	return by->action == LOCK_TAKE || !(uint32_t)result;
}

void locks_hold(struct lock_holder *holder, struct lock_hold hold)
{
	hold.since = holder->instructions[hold.context == CONTEXT_INTERRUPT];
	append(&holder->held, &hold);
}

static struct lock_count *find(const struct lock_table *table, const struct lock_count *key)
{
	uint64_t at = hash(key->lock ^ (uint64_t)key->by, (uint64_t)key->chain << 2 | key->context);
	struct lock_count *count;

	for (;; at++) {
		count = &table->counts[at & (table->capacity - 1)];
		if (!count->by || (count->lock == key->lock && count->by == key->by && count->chain == key->chain &&
				   count->context == key->context))
			return count;
	}
}

static bool grow(struct lock_table *table)
{
	struct lock_table bigger = *table;

	bigger.capacity = table->capacity ? table->capacity * 2 : FIRST_CAPACITY;
	if (bigger.capacity > MAX_CAPACITY)
		return false;
	bigger.counts = calloc(bigger.capacity, sizeof(*bigger.counts));
	if (!bigger.counts)
		return false;
	for (uint64_t i = 0; i < table->capacity; i++)
		if (table->counts[i].by)
			*find(&bigger, &table->counts[i]) = table->counts[i];
	free(table->counts);
	*table = bigger;
	return true;
}

static void count_hold(struct lock_table *table, const struct lock_hold *hold, uint64_t instructions)
{
	const struct lock_count key = { hold->lock, hold->by, hold->chain, hold->context, 0, 0, 0 };
	struct lock_count *count;

	if (table->used * 2 >= table->capacity && !grow(table)) {
		table->lost++;
		return;
	}
	count = find(table, &key);
	if (!count->by) {
		*count = key;
		table->used++;
	}
	count->acquisitions++;
	count->instructions += instructions;
	if (instructions > count->longest)
		count->longest = instructions;
}

void locks_release(struct lock_table *table, struct lock_holder *holder, uint64_t lock, uint64_t early)
{
	struct lock_list *held = &holder->held;

	for (unsigned int place = held->nr; place-- > 0;) {
		const struct lock_hold hold = held->holds[place];

		if (hold.lock == lock) {
			uint64_t so_far = holder->instructions[hold.context == CONTEXT_INTERRUPT] - hold.since;

			remove_at(held, place);
			count_hold(table, &hold, so_far - (early < so_far ? early : so_far));
			return;
		}
	}
}

void locks_forget(struct lock_table *table, struct lock_holder *holder)
{
	table->unreleased += holder->held.nr;
	holder->held.nr = 0;
}

int locks_write(FILE *out, struct lock_table *const *tables, unsigned int nr_tables)
{
	fprintf(out, "cpu,context,chain,lock,function,acquisitions,instructions,longest\n");
	for (unsigned int t = 0; t < nr_tables; t++) {
		for (uint64_t i = 0; i < tables[t]->capacity; i++) {
			const struct lock_count *count = &tables[t]->counts[i];

			if (count->by)
				fprintf(out, "%u,%s,%u,%#lx,%s,%lu,%lu,%lu\n", t, context_names[count->context],
					count->chain, count->lock, count->by->name, count->acquisitions,
					count->instructions, count->longest);
		}
	}
	return ferror(out) ? -1 : 0;
}
