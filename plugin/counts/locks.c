// SPDX-License-Identifier: GPL-2.0-or-later
#include "counts/locks.h"

#include <string.h>

#include "lib/names.h"

#define TABLE_BYTES (64ull << 20)

struct lock_count {
	uint64_t lock;
	uint64_t path; /* the chain, and the context */
	uint64_t by;   /* the address of the struct lock_function */
	uint64_t acquisitions, instructions, longest;
};

static const struct hash_type count_type = { sizeof(struct lock_count), 3 };

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
	size_t length = strlen(symbol);

	for (size_t i = 0; i < sizeof(lock_functions) / sizeof(*lock_functions); i++)
		if (is_name(symbol, length, lock_functions[i].name))
			return &lock_functions[i];
	return NULL;
}

void locks_init(struct lock_table *table)
{
	hash_free(&table->counts, &count_type);
	*table = (struct lock_table){
		.counts = { .max_bytes = TABLE_BYTES },
	};
}

static struct held_lock *last(struct lock_list *list)
{
	return list->nr ? &list->locks[list->nr - 1] : NULL;
}

static void remove_at(struct lock_list *list, unsigned int place)
{
	memmove(&list->locks[place], &list->locks[place + 1], (--list->nr - place) * sizeof(*list->locks));
}

static void append(struct lock_table *table, struct lock_list *list, const struct held_lock *lock)
{
	if (list->nr == MAX_LOCK_DEPTH) {
		remove_at(list, 0);
		table->forgotten++;
	}
	list->locks[list->nr++] = *lock;
}

void locks_begin(struct lock_table *table, struct lock_list *acquiring, const struct held_lock *lock)
{
	append(table, acquiring, lock);
}

bool locks_end(struct lock_list *acquiring, uint64_t sp, struct held_lock *lock)
{
	struct held_lock *begun;

	/* What lies below is gone, however it ended. */
	while ((begun = last(acquiring)) && begun->sp < sp)
		acquiring->nr--;
	if (!begun || begun->sp != sp)
		return false;
	*lock = *begun;
	acquiring->nr--;
	return true;
}

bool locks_taken(const struct lock_function *by, uint64_t result)
{
	/* A bool has one byte; the others may hold anything. */
	if (by->action == LOCK_TRY)
		return (uint8_t)result;
	return by->action == LOCK_TAKE || !(uint32_t)result;
}

void locks_hold(struct lock_table *table, struct lock_owner *owner, struct held_lock lock)
{
	lock.since = owner->instructions[lock.context == CONTEXT_INTERRUPT];
	append(table, &owner->held, &lock);
}

static void count_acquisition(struct lock_table *table, const struct held_lock *lock, uint64_t instructions)
{
	const uint64_t key[] = {
		lock->lock,
		(uint64_t)lock->chain << 2 | lock->context,
		(uint64_t)lock->by,
	};
	struct lock_count *count = hash_add(&table->counts, &count_type, key, 1);

	if (!count)
		return;
	count->acquisitions++;
	count->instructions += instructions;
	if (instructions > count->longest)
		count->longest = instructions;
}

const struct lock_function *locks_release(struct lock_table *table, struct lock_owner *owner, uint64_t lock,
					  uint64_t early)
{
	struct lock_list *held = &owner->held;

	for (unsigned int place = held->nr; place-- > 0;) {
		const struct held_lock released = held->locks[place];

		if (released.lock == lock) {
			uint64_t so_far = owner->instructions[released.context == CONTEXT_INTERRUPT] - released.since;

			remove_at(held, place);
			count_acquisition(table, &released, so_far - (early < so_far ? early : so_far));
			return released.by;
		}
	}
	return NULL;
}

void locks_forget(struct lock_table *table, struct lock_owner *owner)
{
	table->unreleased += owner->held.nr;
	owner->held.nr = 0;
}

int locks_write(FILE *out, struct lock_table *const *tables, unsigned int nr_tables)
{
	fprintf(out, "cpu,context,chain,lock,function,acquisitions,instructions,longest\n");
	for (unsigned int t = 0; t < nr_tables; t++) {
		const struct lock_count *count;

		hash_for_each(count, &tables[t]->counts, &count_type) {
			const struct lock_function *by = (const struct lock_function *)count->by;

			fprintf(out, "%u,%s,%lu,%#lx,%s,%lu,%lu,%lu\n", t, context_name(count->path & 3),
				count->path >> 2, count->lock, by->name, count->acquisitions, count->instructions,
				count->longest);
		}
	}
	return ferror(out) ? -1 : 0;
}
