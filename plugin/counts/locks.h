/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which locks are taken, from where, and how many instructions they are held: from the return of the function that
 * takes a lock to the call of the one that releases it.
 */
#ifndef LOCKS_H
#define LOCKS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "counts/chains.h"
#include "counts/context.h"
#include "lib/hash.h"

/* A function of the kernel's whose first argument is a lock. */
struct lock_function {
	const char *name;
	enum {
		LOCK_TAKE,
		LOCK_TRY,	    /* takes it if the result is true */
		LOCK_INTERRUPTIBLE, /* takes it if the result is 0 */
		LOCK_RELEASE,
	} action;
	bool sleeps; /* a waiter may sleep: a task holds the lock; else a CPU does */
};

/* A lock that is being acquired, or is held. */
struct held_lock {
	uint64_t lock;
	uint64_t sp;	/* where the return address of the function that takes it lies */
	uint64_t since; /* the owner's instructions when it acquired the lock */
	const struct lock_function *by;
	chain_id chain; /* that led to `by` */
	enum context context;
};

#define MAX_LOCK_DEPTH 16

/* Invariant: in the order of acquisition. Beyond MAX_LOCK_DEPTH the first are forgotten. */
struct lock_list {
	unsigned int nr;
	struct held_lock locks[MAX_LOCK_DEPTH];
};

/*
 * A task or a CPU. Its instructions in interrupts are counted apart: the emulator decides how often an interrupt comes
 * while a lock is held, so they are no part of the hold time.
 */
struct lock_owner {
	uint64_t instructions[2];
	struct lock_list held;
};

/* One per CPU. Acquisitions for which there was no room are in counts.lost. */
struct lock_table {
	struct hash_table counts; /* of struct lock_count */
	uint64_t forgotten;	  /* locks deeper than MAX_LOCK_DEPTH */
	uint64_t unreleased;	  /* locks of which no release was seen */
};

struct locks_of_cpu {
	struct lock_owner owner; /* of locks that others spin for: only this CPU releases them, whatever task it runs */
	struct lock_table table;
};

void locks_init(struct lock_table *table);

/* The lock function of that name, or NULL. */
const struct lock_function *lock_function(const char *symbol);

/* A function begins to acquire a lock. */
void locks_begin(struct lock_table *table, struct lock_list *acquiring, const struct held_lock *lock);
/* A function returned by the address at `sp`. Whether it was acquiring a lock: if so, *lock is that. */
bool locks_end(struct lock_list *acquiring, uint64_t sp, struct held_lock *lock);
/* Whether a function's result says that it has taken the lock. */
bool locks_taken(const struct lock_function *by, uint64_t result);

void locks_hold(struct lock_table *table, struct lock_owner *owner, struct held_lock lock);
/*
 * The owner releases a lock. `early` of the owner's instructions are counted already, but not executed yet. Returns the
 * function that acquired the lock; NULL if its call was not seen.
 */
const struct lock_function *locks_release(struct lock_table *table, struct lock_owner *owner, uint64_t lock,
					  uint64_t early);
/* The owner holds no lock any more. */
void locks_forget(struct lock_table *table, struct lock_owner *owner);

/* Write, as CSV, a line for each CPU, context, lock, function and chain. Returns 0 or -1. */
int locks_write(FILE *out, struct lock_table *const *tables, unsigned int nr_tables);

static inline void locks_execute(struct lock_owner *owner, enum context context, uint64_t instructions)
{
	owner->instructions[context == CONTEXT_INTERRUPT] += instructions;
}

#endif
